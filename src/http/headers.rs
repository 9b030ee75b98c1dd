//! What clients say in headers about the answer that they want.

use http::HeaderMap;
use http::header::ACCEPT;

use super::error::ApiError;

/// What a client wants to get back from a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A JSON document.
    Json,
    /// Server-sent events.
    EventStream,
}

impl Form {
    /// Reads `Accept`. A client that names nothing, or anything, gets JSON.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let mut kinds = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
            .filter(|kind| !kind.is_empty())
            .peekable();
        if kinds.peek().is_none() {
            return Ok(Self::Json);
        }
        let mut takes_json = false;
        for kind in kinds {
            match kind.as_str() {
                "text/event-stream" => return Ok(Self::EventStream),
                "*/*" | "application/*" | "application/json" => takes_json = true,
                _ => {}
            }
        }
        if takes_json { Ok(Self::Json) } else { Err(ApiError::NotAcceptable) }
    }
}

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

/// What makes a repeated post the same post.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    match value.to_str() {
        Ok(key) if (1..=255).contains(&key.len()) => Ok(Some(key)),
        _ => Err(ApiError::field(
            "",
            "the Idempotency-Key header is not 1 to 255 printable characters",
        )),
    }
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
    fn the_accept_header_chooses_the_form() {
        let form = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("accept", HeaderValue::from_str(accept).unwrap());
            Form::of(&headers).ok()
        };
        assert_eq!(Form::of(&HeaderMap::new()).ok(), Some(Form::Json));
        assert_eq!(form("*/*"), Some(Form::Json));
        assert_eq!(form("application/json, text/event-stream;q=0.9"), Some(Form::EventStream));
        assert_eq!(form("text/html"), None);
    }

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
