//! What the headers of a reply say, of a good one and of an error.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// What the headers of a reply say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplyHead {
    /// The server's own id of the request, to ask the server's people about.
    pub request_id: Option<String>,
    /// How long the server asks us to wait.
    pub retry_after: Option<Duration>,
    /// Whether the server says that the same request may succeed later.
    pub should_retry: Option<bool>,
}

impl ReplyHead {
    /// Reads the headers. What is not readable counts as not said.
    pub fn of(headers: &HeaderMap) -> Self {
        Self {
            request_id: ["request-id", "x-request-id"]
                .iter()
                .find_map(|name| text(headers, name))
                .map(str::to_owned),
            retry_after: retry_after(headers).filter(|wait| !wait.is_zero()),
            should_retry: text(headers, "x-should-retry").and_then(|word| word.parse().ok()),
        }
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Milliseconds before seconds, seconds before a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str, unit: f64| -> Option<Duration> {
        let value: f64 = text(headers, name)?.parse().ok()?;
        Duration::try_from_secs_f64(value * unit).ok()
    };
    number("retry-after-ms", 0.001)
        .or_else(|| number(RETRY_AFTER.as_str(), 1.0))
        .or_else(|| until(headers))
}

/// The time until a date, by the clock of the server that named it where it tells the time.
fn until(headers: &HeaderMap) -> Option<Duration> {
    let date = |name: &str| DateTimeParser::new().parse_timestamp(text(headers, name)?).ok();
    let now = date(DATE.as_str()).unwrap_or_else(Timestamp::now);
    Duration::try_from(date(RETRY_AFTER.as_str())?.duration_since(now)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(headers: &[(&'static str, &str)]) -> ReplyHead {
        let headers = headers.iter().map(|(name, value)| {
            (reqwest::header::HeaderName::from_static(name), value.parse().unwrap())
        });
        ReplyHead::of(&headers.collect())
    }

    #[test]
    fn a_wait_is_told_in_seconds_in_milliseconds_or_by_a_date() {
        let wait = |headers: &[(&'static str, &str)]| head(headers).retry_after;
        assert_eq!(wait(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(wait(&[("retry-after", "0.5")]), Some(Duration::from_millis(500)));
        let both = [("retry-after", "7"), ("retry-after-ms", "20")];
        assert_eq!(wait(&both), Some(Duration::from_millis(20)));
        // The server's clock may be years away from ours.
        let date = [
            ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("date", "Sun, 06 Nov 1994 08:49:32 GMT"),
        ];
        assert_eq!(wait(&date), Some(Duration::from_secs(5)));
        let later = Timestamp::now() + Duration::from_secs(30);
        let later = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&later);
        let wait = wait(&[("retry-after", &later.unwrap())]).unwrap();
        assert!((28..=30).contains(&wait.as_secs()), "{wait:?}");
    }

    #[test]
    fn a_wait_that_is_none_is_not_kept() {
        for said in ["", "soon", "0", "-3", "NaN", "inf", "1e300", "Sun, 06 Nov 1994 08:49:37 GMT"]
        {
            assert_eq!(head(&[("retry-after", said)]).retry_after, None, "{said}");
        }
    }

    #[test]
    fn the_id_and_the_advice_are_read() {
        let said = head(&[("request-id", "req_1"), ("x-should-retry", "false")]);
        let expected = ReplyHead {
            request_id: Some("req_1".to_owned()),
            retry_after: None,
            should_retry: Some(false),
        };
        assert_eq!(said, expected);
        assert_eq!(head(&[("x-should-retry", "maybe")]), ReplyHead::default());
        let others = head(&[("x-request-id", "req_2")]).request_id;
        assert_eq!(others.as_deref(), Some("req_2"));
    }
}
