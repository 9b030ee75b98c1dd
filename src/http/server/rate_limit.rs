//! The rate limit of each key (a token bucket).
//!
//! The quota of a key refills steadily. The only state of a key is the time at which its quota is
//! full again; keys with a full quota have no state.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::HeaderValue;

use crate::domain::principal::LimitHolder;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, seconds};

/// The time in which an empty quota refills.
const WINDOW: Duration = Duration::from_mins(1);
/// The maximum number of keys with state. A key whose state is dropped has a full quota again.
const MAX_REMEMBERED: usize = 10_000;

/// The rate limit of each key. Callers without a key share one quota.
#[derive(Debug)]
pub(in crate::http) struct RateLimit {
    /// Requests in a window.
    quota: u32,
    /// The time at which the quota of each key is full again.
    full_at: Mutex<HashMap<Option<LimitHolder>, Instant>>,
}

/// The state of a quota after a request, as the response headers report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QuotaState {
    /// Requests that the quota still allows now.
    remaining: u32,
    /// The time until the quota allows one more request.
    next_in: Duration,
    /// The request exceeded the limit.
    is_over: bool,
}

impl RateLimit {
    /// Limits each key to `quota` requests a minute. Returns none, for no limit, if the quota is 0.
    pub(in crate::http) fn new(quota: u32) -> Option<Self> {
        (quota > 0).then(|| Self { quota, full_at: Mutex::default() })
    }

    fn take(&self, holder: Option<LimitHolder>, now: Instant) -> QuotaState {
        let each = WINDOW / self.quota;
        let mut remembered = self.remembered();
        let full_at = remembered.get(&holder).copied().unwrap_or(now).max(now);
        let missing = full_at - now;
        let next_in = (missing + each).saturating_sub(each * self.quota);
        if !next_in.is_zero() {
            return QuotaState { remaining: 0, next_in, is_over: true };
        }
        make_room(&mut remembered, now);
        let missing = missing + each;
        remembered.insert(holder, now + missing);
        let used = missing.as_nanos().div_ceil(each.as_nanos());
        let used = u32::try_from(used).unwrap_or(u32::MAX);
        let next_in = missing.saturating_sub(each * used.saturating_sub(1));
        QuotaState { remaining: self.quota.saturating_sub(used), next_in, is_over: false }
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<Option<LimitHolder>, Instant>> {
        self.full_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops state when there is too much of it, that of full quotas first.
fn make_room(remembered: &mut HashMap<Option<LimitHolder>, Instant>, now: Instant) {
    if remembered.len() >= MAX_REMEMBERED {
        remembered.retain(|_, full_at| *full_at > now);
    }
    if remembered.len() >= MAX_REMEMBERED {
        remembered.clear();
    }
}

/// Refuses requests over the limit of their key, and adds the `ratelimit` headers to all responses.
pub(in crate::http) async fn layer(
    State(limit): State<Arc<RateLimit>>,
    caller: Caller,
    request: Request,
    next: Next,
) -> Response {
    let quota = limit.take(caller.holder(), Instant::now());
    let seconds = seconds(quota.next_in);
    let mut response = if quota.is_over {
        ApiError::RateLimited(quota.next_in).into_response()
    } else {
        next.run(request).await
    };
    let policy = format!(r#""key";q={};w={}"#, limit.quota, WINDOW.as_secs());
    let left = format!(r#""key";r={};t={seconds}"#, quota.remaining);
    for (name, value) in [("ratelimit-policy", policy), ("ratelimit", left)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::KeyId;

    fn at_once(remaining: u32) -> QuotaState {
        QuotaState { remaining, next_in: Duration::from_secs(20), is_over: false }
    }

    fn over(seconds: u64) -> QuotaState {
        QuotaState { remaining: 0, next_in: Duration::from_secs(seconds), is_over: true }
    }

    #[test]
    fn a_quota_may_be_used_at_once_and_comes_back_steadily() {
        let limit = RateLimit::new(3).unwrap();
        let start = Instant::now();
        let at = |seconds| limit.take(None, start + Duration::from_secs(seconds));
        assert_eq!([at(0), at(0), at(0)], [at_once(2), at_once(1), at_once(0)]);
        assert_eq!([at(0), at(5)], [over(20), over(15)]);
        // A third of a minute refills one request, and a refused request uses nothing.
        assert_eq!([at(20), at(20)], [at_once(0), over(20)]);
        assert_eq!([at(60), at(60), at(60)], [at_once(1), at_once(0), over(20)]);
        // Never more than the quota.
        assert_eq!([at(600), at(600), at(600)], [at_once(2), at_once(1), at_once(0)]);
    }

    #[test]
    fn each_key_has_a_quota_of_its_own() {
        let limit = RateLimit::new(1).unwrap();
        let (one, other, now) = (
            Some(LimitHolder::Key(KeyId::new())),
            Some(LimitHolder::Key(KeyId::new())),
            Instant::now(),
        );
        let is_over = |key| limit.take(key, now).is_over;
        assert_eq!([is_over(one), is_over(one), is_over(other)], [false, true, false]);
        assert_eq!([is_over(None), is_over(None)], [false, true]);
    }

    #[test]
    fn no_number_of_keys_is_too_large() {
        let limit = RateLimit::new(1).unwrap();
        let now = Instant::now();
        for _ in 0..2 * MAX_REMEMBERED {
            limit.take(Some(LimitHolder::Key(KeyId::new())), now);
            assert!(limit.remembered().len() <= MAX_REMEMBERED);
        }
    }

    #[test]
    fn zero_is_no_limit() {
        assert!(RateLimit::new(0).is_none());
    }
}
