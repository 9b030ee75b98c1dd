//! A cache of credentials in front of the database.
//!
//! A request with a credential that was looked up within [`CACHE_LIFETIME`] costs no query. Lookups of
//! unknown credentials have a small concurrency limit with a bounded queue of their own, so that a flood
//! of wrong keys does not delay the keys that are known to be valid.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::http::error::ApiError;
use crate::service::concurrency_limit::ConcurrencyLimit;
use crate::service::deadline::in_time;

/// The lifetime of a cached lookup. A revoked credential is refused after this time, and its streams are
/// aborted within another [`super::watch::CHECK_INTERVAL`].
const CACHE_LIFETIME: Duration = Duration::from_secs(2);
/// The maximum number of cached lookups, including those of credentials that do not exist.
const MAX_REMEMBERED: usize = 10_000;
/// Concurrent lookups per limit; the pool has eight connections.
pub(super) const AT_A_TIME: usize = 2;
/// The queue of unknown credentials: less than a second of lookups.
pub(super) const MAX_WAITING: usize = 256;
/// Longer than any request takes.
pub(super) const PATIENCE: Duration = Duration::from_mins(1);

/// A valid credential as the database has it.
pub(super) trait Found: Clone {
    /// The remaining lifetime; none for a credential that does not expire.
    fn expires_in(&self) -> Option<Duration>;
}

/// The concurrency limits of lookups, which all kinds of credentials share.
#[derive(Debug)]
pub(super) struct LookupLimits {
    known: ConcurrencyLimit,
    unknown: ConcurrencyLimit,
}

impl LookupLimits {
    pub(super) fn new() -> Self {
        Self {
            known: ConcurrencyLimit::new(AT_A_TIME, Semaphore::MAX_PERMITS, PATIENCE),
            unknown: ConcurrencyLimit::new(AT_A_TIME, MAX_WAITING, PATIENCE),
        }
    }
}

/// The cached lookup of a credential.
#[derive(Debug, Clone)]
struct Cached<T> {
    /// None: the credential does not exist, is revoked or is expired.
    found: Option<T>,
    fresh_until: Instant,
}

/// A cache of one kind of credentials.
#[derive(Debug)]
pub(super) struct LookupCache<I, T> {
    cached: Mutex<HashMap<I, Cached<T>>>,
}

impl<I, T> Default for LookupCache<I, T> {
    fn default() -> Self {
        Self { cached: Mutex::default() }
    }
}

impl<I: Copy + Eq + Hash, T: Found> LookupCache<I, T> {
    /// The credential with this id, by a query if it is not in the cache; none if it is not valid.
    pub(super) async fn get(
        &self,
        id: I,
        limits: &LookupLimits,
        query: impl AsyncFnOnce() -> Result<Option<T>, ApiError>,
    ) -> Result<Option<T>, ApiError> {
        let cached = self.cached().get(&id).cloned();
        let was_good = match cached {
            Some(cached) if cached.is_fresh() => return Ok(cached.found),
            Some(cached) => cached.found.is_some(),
            None => false,
        };
        let limit = if was_good { &limits.known } else { &limits.unknown };
        in_time(async {
            let _permit = limit.acquire().await.ok_or(ApiError::TooManyUnknownKeys)?;
            // A request earlier in the queue may have looked up the same credential.
            let cached = self.cached().get(&id).filter(|cached| cached.is_fresh()).cloned();
            if let Some(cached) = cached {
                return Ok(cached.found);
            }
            // Taken before the query, so that a later revocation is noticed in time.
            let asked_at = Instant::now();
            // Boxed, because the future is large and seldom needed.
            let found = Box::pin(query()).await?;
            let expires_in = found.as_ref().and_then(T::expires_in).unwrap_or(CACHE_LIFETIME);
            let fresh_until = asked_at + expires_in.min(CACHE_LIFETIME);
            let mut cache = self.cached();
            make_room(&mut cache);
            cache.insert(id, Cached { found: found.clone(), fresh_until });
            Ok(found)
        })
        .await
    }

    /// Changes a valid credential in the cache.
    pub(super) fn change<R>(&self, id: I, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.cached().get_mut(&id).and_then(|cached| cached.found.as_mut()).map(change)
    }

    fn cached(&self) -> MutexGuard<'_, HashMap<I, Cached<T>>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Cached<T> {
    fn is_fresh(&self) -> bool {
        Instant::now() < self.fresh_until
    }
}

/// Removes lookups when the cache is full, those of invalid credentials first.
fn make_room<I: Eq + Hash, T>(cache: &mut HashMap<I, Cached<T>>) {
    if cache.len() >= MAX_REMEMBERED {
        cache.retain(|_, cached| cached.found.is_some());
    }
    if cache.len() >= MAX_REMEMBERED {
        cache.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cached(is_valid: bool) -> Cached<()> {
        Cached { found: is_valid.then_some(()), fresh_until: Instant::now() }
    }

    #[test]
    fn invalid_credentials_leave_the_cache_before_valid_ones() {
        let mut cache: HashMap<_, _> = (0..10).map(|id| (id, cached(true))).collect();
        for id in 0..2 * MAX_REMEMBERED {
            make_room(&mut cache);
            cache.insert(10 + id, cached(false));
            assert!(cache.len() <= MAX_REMEMBERED);
        }
        assert!((0..10).all(|id| cache.contains_key(&id)));
    }

    #[test]
    fn the_cache_is_bounded_for_valid_credentials_too() {
        let mut cache = HashMap::new();
        for id in 0..2 * MAX_REMEMBERED {
            make_room(&mut cache);
            cache.insert(id, cached(true));
            assert!(cache.len() <= MAX_REMEMBERED);
        }
    }
}
