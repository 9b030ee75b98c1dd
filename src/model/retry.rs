//! The retry policy for requests to the model.

use std::time::Duration;

use super::error::ModelError;

/// The maximum number of tries of one step; after that the run fails.
pub const MAX_ATTEMPTS: u32 = 8;
/// The same if every try costs a whole reply, or the time of one.
const MAX_WHOLE_REPLIES: u32 = 3;
/// The number of tries of a model that has a fallback.
const TRIES_BEFORE_FALLBACK: u32 = 3;
const FIRST_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// The longest `retry-after` that is obeyed; a longer one fails the run.
pub const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);

/// Returns the delay after this number of consecutive failures, or `None` when no retry is due.
///
/// Jitter (the second half of an exponential delay is random) spreads clients that failed together. No
/// delay is near zero: a retry at once would meet the same overload.
pub fn delay_after(failures: u32, error: &ModelError) -> Option<Duration> {
    if failures >= max_attempts(error) || !error.retryable() {
        return None;
    }
    if let Some(requested) = error.retry_after() {
        return (requested <= MAX_RETRY_AFTER).then_some(requested);
    }
    Some(ceiling(failures).mul_f64(0.5 + fastrand::f64() / 2.0))
}

/// Returns true if another model is asked after this number of consecutive failures, instead of a
/// further try. A server that sends nothing for the idle timeout has cost that time already.
pub fn gives_way_after(failures: u32, error: &ModelError) -> bool {
    let is_slow = matches!(error, ModelError::Idle(_) | ModelError::NoContent(_));
    error.is_unavailability() && (is_slow || failures >= TRIES_BEFORE_FALLBACK)
}

fn max_attempts(error: &ModelError) -> u32 {
    match error {
        ModelError::BadCall(_) | ModelError::NoContent(_) => MAX_WHOLE_REPLIES,
        ModelError::Connect(_)
        | ModelError::Api { .. }
        | ModelError::Broken(_)
        | ModelError::Truncated
        | ModelError::Idle(_)
        | ModelError::TimeLimit(_)
        | ModelError::Certificate(_)
        | ModelError::Malformed(_)
        | ModelError::TooLarge(_)
        | ModelError::CircuitOpen(_)
        | ModelError::UnknownProvider(_) => MAX_ATTEMPTS,
    }
}

fn ceiling(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_DELAY.saturating_mul(doubled).min(MAX_DELAY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::error::ErrorKind;
    use crate::model::reply_head::ReplyHead;

    fn overloaded(retry_after: Option<u64>) -> ModelError {
        ModelError::Api {
            status: Some(529),
            kind: ErrorKind::Overloaded,
            message: String::new(),
            paths: Box::default(),
            head: ReplyHead {
                retry_after: retry_after.map(Duration::from_secs),
                ..ReplyHead::default()
            },
        }
    }

    #[test]
    fn delays_double_up_to_a_ceiling_until_the_last_try() {
        let ceilings: Vec<_> = (1..=8).map(|failures| ceiling(failures).as_millis()).collect();
        assert_eq!(ceilings, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        for failures in 1..MAX_ATTEMPTS {
            let delay = delay_after(failures, &overloaded(None)).unwrap();
            assert!((ceiling(failures) / 2..=ceiling(failures)).contains(&delay), "{delay:?}");
        }
        assert_eq!(delay_after(MAX_ATTEMPTS, &overloaded(None)), None);
    }

    #[test]
    fn a_reply_that_cannot_be_stored_is_requested_three_times() {
        let error = ModelError::BadCall(String::new());
        assert!(delay_after(2, &error).is_some());
        assert_eq!(delay_after(3, &error), None);
    }

    #[test]
    fn retry_after_is_obeyed_up_to_a_minute() {
        assert_eq!(delay_after(1, &overloaded(Some(7))), Some(Duration::from_secs(7)));
        assert_eq!(delay_after(1, &overloaded(Some(61))), None);
    }
}
