//! Values from the headers of a reply or an error response.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// Values from the headers of a reply or an error response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReplyHead {
    /// The server's id of the request, for support requests to the provider.
    pub request_id: Option<String>,
    /// The delay that the server requests before the next try.
    pub retry_after: Option<Duration>,
    /// The server's statement about whether a retry may succeed (`x-should-retry`).
    pub should_retry: Option<bool>,
}

impl ReplyHead {
    /// Parses the headers. Values that do not parse are absent.
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

/// Prefers milliseconds to seconds, and seconds to a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str, unit: f64| -> Option<Duration> {
        let value: f64 = text(headers, name)?.parse().ok()?;
        Duration::try_from_secs_f64(value * unit).ok()
    };
    number("retry-after-ms", 0.001)
        .or_else(|| number(RETRY_AFTER.as_str(), 1.0))
        .or_else(|| until(headers))
}

/// The time until the date in `retry-after`, by the clock of the server if it sends `date`.
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
    fn retry_after_is_read_from_seconds_milliseconds_or_a_date() {
        let wait = |headers: &[(&'static str, &str)]| head(headers).retry_after;
        assert_eq!(wait(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(wait(&[("retry-after", "0.5")]), Some(Duration::from_millis(500)));
        let both = [("retry-after", "7"), ("retry-after-ms", "20")];
        assert_eq!(wait(&both), Some(Duration::from_millis(20)));
        // The server's clock may differ from ours by years.
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
    fn zero_negative_and_malformed_delays_are_ignored() {
        for value in ["", "soon", "0", "-3", "NaN", "inf", "1e300", "Sun, 06 Nov 1994 08:49:37 GMT"]
        {
            assert_eq!(head(&[("retry-after", value)]).retry_after, None, "{value}");
        }
    }

    #[test]
    fn the_request_id_and_the_retry_advice_are_read() {
        let actual = head(&[("request-id", "req_1"), ("x-should-retry", "false")]);
        let expected = ReplyHead {
            request_id: Some("req_1".to_owned()),
            retry_after: None,
            should_retry: Some(false),
        };
        assert_eq!(actual, expected);
        assert_eq!(head(&[("x-should-retry", "maybe")]), ReplyHead::default());
        let others = head(&[("x-request-id", "req_2")]).request_id;
        assert_eq!(others.as_deref(), Some("req_2"));
    }
}
