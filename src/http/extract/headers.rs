//! Request headers that control the response.

use http::HeaderMap;

use crate::http::error::{ApiError, FieldError};
use crate::service::Error;
use crate::service::paging::CursorSource;

/// The header in which an `EventSource` names the last event that it has received.
pub(in crate::http) const LAST_EVENT_ID: &str = "Last-Event-ID";
/// The preference of a client that does not want to wait (RFC 7240, section 4.1).
pub(in crate::http) const RESPOND_ASYNC: &str = "respond-async";
/// The maximum time to wait for a run, in seconds.
pub(in crate::http) const MAX_WAIT: u64 = 120;

/// The seconds of `Prefer: wait=N` (RFC 7240), at most [`MAX_WAIT`]. The first of several counts, and
/// a malformed one is ignored.
pub(in crate::http) fn wait_seconds(headers: &HeaderMap) -> Option<u64> {
    let (_, value) = preferences(headers).find(|(name, _)| name.eq_ignore_ascii_case("wait"))?;
    let within = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    let digits = within.unwrap_or(value);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // A number that overflows exceeds the maximum too.
    is_number.then(|| digits.parse().unwrap_or(MAX_WAIT).min(MAX_WAIT))
}

/// Returns true if the request has the preference [`RESPOND_ASYNC`].
pub(in crate::http) fn prefers_no_wait(headers: &HeaderMap) -> bool {
    preferences(headers).any(|(name, _)| name.eq_ignore_ascii_case(RESPOND_ASYNC))
}

/// The names and values of the preferences of a request, without their parameters.
fn preferences(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let preferences = values.flat_map(|value| unquoted(value, ','));
    preferences.filter_map(|preference| {
        let without_parameters = unquoted(preference, ';').next()?;
        let (name, value) = without_parameters.split_once('=').unwrap_or((without_parameters, ""));
        Some((name.trim(), value.trim()))
    })
}

/// The parts of a text between unquoted separators.
fn unquoted(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |letter| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        match letter {
            '"' => is_quoted = !is_quoted,
            '\\' => is_escaped = is_quoted,
            _ => {}
        }
        letter == separator && !is_quoted
    })
}

/// The value of `Idempotency-Key`.
pub(in crate::http) fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    match value.to_str() {
        Ok(key) if (1..=255).contains(&key.len()) => Ok(Some(key)),
        _ => {
            let cause = "is not 1 to 255 printable characters";
            let error = FieldError::in_header("Idempotency-Key", cause);
            Err(Error::Validation(vec![error]).into())
        }
    }
}

/// The position from which a stream resumes: `Last-Event-ID`, otherwise `?after=`.
pub(in crate::http) fn resume_after(
    headers: &HeaderMap,
    after: Option<i64>,
) -> Result<ResumePosition, ApiError> {
    let refuse = |error| Err(ApiError::Service(Error::InvalidCursor(error)));
    if let Some(after) = after.filter(|after| *after < 0) {
        let message = format!("is {after}; the number of an event, or 0, is required");
        return refuse(FieldError::in_query("after", message));
    }
    let Some(value) = headers.get(LAST_EVENT_ID) else {
        return Ok(ResumePosition { seq: after.unwrap_or(0), is_of_header: false });
    };
    let text = value.to_str().unwrap_or_default();
    let Some(seq) = text.parse().ok().filter(|seen| *seen >= 0) else {
        let message = format!("is {text:?}; the number of an event, or 0, is required");
        return refuse(FieldError::in_header(LAST_EVENT_ID, message));
    };
    Ok(ResumePosition { seq, is_of_header: true })
}

/// The event after which a stream resumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) struct ResumePosition {
    /// The number of the event; 0 for the beginning.
    pub(in crate::http) seq: i64,
    is_of_header: bool,
}

impl ResumePosition {
    /// The source of the position, for errors.
    pub(in crate::http) fn source(self) -> CursorSource {
        if self.is_of_header {
            CursorSource::Header(LAST_EVENT_ID)
        } else {
            CursorSource::Parameter("after")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_stream_resumes_after_the_last_event_id_or_the_query() {
        let resume = |seen: Option<&str>, after| {
            let header = seen.map(|seen| ("last-event-id".parse().unwrap(), seen.parse().unwrap()));
            resume_after(&header.into_iter().collect(), after).ok().map(|position| position.seq)
        };
        for (seen, after, expected) in [
            (None, None, Some(0)),
            (None, Some(7), Some(7)),
            (Some("9"), Some(7), Some(9)),
            (Some("0"), None, Some(0)),
            (None, Some(-1), None),
            (Some("9"), Some(-1), None),
            (Some("-1"), None, None),
            (Some("x"), Some(7), None),
        ] {
            assert_eq!(resume(seen, after), expected, "{seen:?} {after:?}");
        }
    }

    #[test]
    fn a_preference_to_wait_is_read_and_bounded() {
        let wait = |prefer: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("prefer", HeaderValue::from_str(prefer).unwrap());
            wait_seconds(&headers)
        };
        for (prefer, seconds) in [
            ("wait=30", Some(30)),
            ("respond-async, wait=5", Some(5)),
            ("WAIT = \"7\"; foo=bar", Some(7)),
            ("foo=\"a, wait=1; \\\"\", wait=8", Some(8)),
            ("wait=9, wait=10", Some(9)),
            ("wait=0", Some(0)),
            ("wait=99999", Some(120)),
            ("wait=99999999999999999999999", Some(120)),
            ("respond-async", None),
            ("foo; wait=5", None),
            ("wait", None),
            ("wait=", None),
            ("wait=-1", None),
            ("wait=+1", None),
            ("wait=1.5", None),
            ("wait=soon, wait=5", None),
            ("waiting=5", None),
        ] {
            assert_eq!(wait(prefer), seconds, "{prefer}");
        }
    }
}
