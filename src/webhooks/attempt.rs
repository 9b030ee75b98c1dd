//! One delivery attempt.

use std::error::Error;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};

use crate::domain::webhook::pause_after;
use crate::outbound::Outbound;
use crate::store::deliveries::{DueDelivery, NextAttempt};

/// Time limit for the answer of a receiver.
pub const TIMEOUT: Duration = Duration::from_secs(15);
/// The status with which a receiver reports that it no longer exists.
pub(super) const GONE: u16 = 410;
/// The longest pause that a receiver can request.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);
/// Maximum length of a stored error, in characters.
const MAX_ERROR: usize = 300;

/// The outcome of an attempt.
#[derive(Debug, Default)]
pub(super) struct DeliveryAttempt {
    /// The status of the answer.
    pub(super) status: Option<u16>,
    /// The reason of a failure.
    pub(super) error: Option<String>,
    /// The pause that the receiver requests.
    retry_after: Option<Duration>,
}

impl DeliveryAttempt {
    /// Sends a delivery.
    pub(super) async fn make(outbound: &Outbound, due: &DueDelivery) -> Self {
        let url = match due.url.parse::<Url>() {
            Ok(url) => url,
            Err(error) => return Self::failed(&format!("the URL is not valid: {error}")),
        };
        let client = match outbound.client(&url) {
            Ok(client) => client,
            // The operator's address rules may have changed since the webhook was created.
            Err(refused) => return Self::failed(&format!("the URL {refused}")),
        };
        // Receivers refuse old signatures, so each attempt has a new one.
        let timestamp = Timestamp::now().as_second();
        let signatures: Vec<String> =
            due.secrets.iter().map(|secret| secret.sign(due.id, timestamp, &due.body)).collect();
        let request = client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", due.id.to_string())
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signatures.join(" "))
            .body(due.body.clone());
        match request.send().await {
            Ok(answer) => Self::answered(answer.status().as_u16(), answer.headers()),
            // The URL may contain a secret of the receiver.
            Err(error) => Self::failed(&causes(&error.without_url())),
        }
    }

    fn failed(error: &str) -> Self {
        let error = error.chars().filter(|c| !c.is_control()).take(MAX_ERROR).collect();
        Self { error: Some(error), ..Self::default() }
    }

    fn answered(status: u16, headers: &HeaderMap) -> Self {
        if (200..300).contains(&status) {
            return Self { status: Some(status), ..Self::default() };
        }
        let retry_after =
            headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        Self {
            status: Some(status),
            error: Some(format!("answered {status}")),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    /// Returns the consequence of the attempt with this number.
    pub(super) fn next(&self, attempt: i32) -> NextAttempt {
        if self.error.is_none() {
            return NextAttempt::Delivered;
        }
        match pause_after(attempt) {
            Some(pause) if self.status != Some(GONE) => {
                let pause = pause.max(self.retry_after.unwrap_or_default().min(MAX_RETRY_AFTER));
                // Jitter: deliveries that failed together must not be retried together.
                NextAttempt::After(pause.mul_f64(1.0 + fastrand::f64() / 10.0))
            }
            _ => NextAttempt::Failed,
        }
    }
}

/// Formats an error with all of its causes.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn answered(status: u16, retry_after: Option<&'static str>) -> DeliveryAttempt {
        let mut headers = HeaderMap::new();
        if let Some(text) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(text));
        }
        DeliveryAttempt::answered(status, &headers)
    }

    fn pause(attempt: &DeliveryAttempt, number: i32) -> f64 {
        match attempt.next(number) {
            NextAttempt::After(pause) => pause.as_secs_f64(),
            other @ (NextAttempt::Delivered | NextAttempt::Failed) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_successful_response_completes_the_delivery() {
        for status in [200, 202, 204] {
            assert_eq!(answered(status, None).next(1), NextAttempt::Delivered, "{status}");
        }
    }

    #[test]
    fn a_failed_attempt_is_retried_with_pauses_until_the_last_attempt() {
        for attempt in [
            answered(302, None),
            answered(400, None),
            answered(500, None),
            DeliveryAttempt::failed("no route"),
        ] {
            assert!((5.0..5.6).contains(&pause(&attempt, 1)), "{attempt:?}");
            assert!((300.0..331.0).contains(&pause(&attempt, 2)), "{attempt:?}");
            assert_eq!(attempt.next(8), NextAttempt::Failed);
        }
    }

    #[test]
    fn a_gone_receiver_gets_no_retry() {
        assert_eq!(answered(410, None).next(1), NextAttempt::Failed);
    }

    #[test]
    fn a_receiver_can_request_a_longer_pause_up_to_the_limit() {
        assert!((60.0..66.1).contains(&pause(&answered(429, Some("60")), 1)));
        assert!((3600.0..3961.0).contains(&pause(&answered(503, Some("999999999")), 1)));
        assert!((300.0..331.0).contains(&pause(&answered(503, Some("1")), 2)));
        assert!((5.0..5.6).contains(&pause(&answered(503, Some("soon")), 1)));
    }

    #[test]
    fn a_long_error_is_truncated() {
        let attempt = DeliveryAttempt::failed(&format!("a\u{1b}[31m\n{}", "é".repeat(1000)));
        let error = attempt.error.unwrap();
        assert!(error.starts_with("a[31mé"), "{error}");
        assert_eq!(error.chars().count(), MAX_ERROR);
    }
}
