//! What clients say in headers about the answer that they want.

use http::HeaderMap;

use super::error::ApiError;

/// The seconds of `Prefer: wait=N` (RFC 7240), at most two minutes.
pub(super) fn wait_seconds(headers: &HeaderMap) -> Option<u64> {
    const MAX: u64 = 120;
    headers
        .get_all("prefer")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split([',', ';']))
        .find_map(|preference| preference.trim().strip_prefix("wait=")?.parse::<u64>().ok())
        .map(|seconds| seconds.min(MAX))
}

/// Where a stream goes on: `Last-Event-ID`, or else `?after=`.
pub(super) fn resume_after(headers: &HeaderMap, after: Option<i64>) -> Result<i64, ApiError> {
    let after = match headers.get("last-event-id") {
        Some(value) => {
            let text = value.to_str().unwrap_or_default();
            text.parse().map_err(|_| ApiError::InvalidCursor(text.to_owned()))?
        }
        None => after.unwrap_or(0),
    };
    if after < 0 {
        return Err(ApiError::InvalidCursor(after.to_string()));
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_preference_to_wait_is_read_and_bounded() {
        let wait = |prefer: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", HeaderValue::from_str(prefer).unwrap());
            wait_seconds(&headers)
        };
        assert_eq!(wait("wait=30"), Some(30));
        assert_eq!(wait("respond-async, wait=5"), Some(5));
        assert_eq!(wait("wait=99999"), Some(120));
        assert_eq!(wait("respond-async"), None);
    }
}
