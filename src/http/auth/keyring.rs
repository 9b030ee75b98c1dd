//! A cache of API keys in front of the database.
//!
//! A request with a key that was looked up within [`CACHE_LIFETIME`] costs no query. Lookups of
//! unknown keys have a small concurrency limit with a bounded queue of their own, so that a flood
//! of wrong keys does not delay the keys that are known to be valid.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::caller::Caller;
use super::ticket::RequestTicket;
use super::tokens::Tokens;
use crate::domain::api_key::{ApiKey, Scope};
use crate::domain::ids::KeyId;
use crate::domain::principal::Principal;
use crate::http::error::ApiError;
use crate::service::concurrency_limit::ConcurrencyLimit;
use crate::service::deadline::in_time;
use crate::store::api_keys::{StoredKey, find_key, update_last_used};
use crate::store::connections::Connections;
use crate::store::stream_tickets::take;
use crate::tokens::Issuer;

/// The lifetime of a cached lookup. A revoked key is refused after this time, and its streams are aborted
/// within another [`super::watch::CHECK_INTERVAL`].
const CACHE_LIFETIME: Duration = Duration::from_secs(2);
/// The maximum number of cached lookups, including those of keys that do not exist.
const MAX_REMEMBERED: usize = 10_000;
/// Concurrent lookups per limit; the pool has eight connections.
const AT_A_TIME: usize = 2;
/// The queue of unknown keys and of tickets: less than a second of lookups.
const MAX_WAITING: usize = 256;
/// Longer than any request takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// The cached lookup of a key.
#[derive(Debug, Clone, Copy)]
struct CachedKey {
    /// None: the key does not exist, is revoked or is expired.
    credential: Option<StoredKey>,
    fresh_until: Instant,
}

/// The cache of API keys, and the other ways to authenticate.
#[derive(Debug)]
pub(in crate::http) struct Keyring {
    pool: Connections,
    /// Runs updates of the last use, which no request waits for.
    tasks: TaskTracker,
    cache: Mutex<HashMap<KeyId, CachedKey>>,
    known_key_limit: ConcurrencyLimit,
    unknown_key_limit: ConcurrencyLimit,
    ticket_limit: ConcurrencyLimit,
    /// None: tokens are not accepted.
    tokens: Option<Tokens>,
}

impl Keyring {
    pub(in crate::http) fn new(
        pool: Connections,
        tasks: TaskTracker,
        issuer: Option<Arc<Issuer>>,
    ) -> Self {
        Self {
            tokens: issuer.map(|issuer| Tokens::new(issuer, pool.clone())),
            pool,
            tasks,
            cache: Mutex::default(),
            known_key_limit: ConcurrencyLimit::new(AT_A_TIME, Semaphore::MAX_PERMITS, PATIENCE),
            unknown_key_limit: ConcurrencyLimit::new(AT_A_TIME, MAX_WAITING, PATIENCE),
            ticket_limit: ConcurrencyLimit::new(AT_A_TIME, MAX_WAITING, PATIENCE),
        }
    }

    /// The caller of a key; none if the key is invalid.
    pub(super) async fn caller(&self, key: &ApiKey) -> Result<Option<Caller>, ApiError> {
        let credential = self.credential(key.id()).await?;
        let Some(credential) = credential.filter(|found| found.hash == key.hash()) else {
            return Ok(None);
        };
        if credential.is_last_used_stale && self.must_record_use(key.id()) {
            self.tasks.spawn(record_use(self.pool.clone(), key.id()));
        }
        let StoredKey { tenant, scope, .. } = credential;
        Ok(Some(Caller { tenant, scope, principal: Some(Principal::Key(key.id())), subject: None }))
    }

    /// The caller of a token; none if the token is invalid.
    pub(super) async fn bearer(&self, token: &str) -> Result<Option<Caller>, ApiError> {
        match &self.tokens {
            Some(tokens) => tokens.caller(token).await,
            None => Ok(None),
        }
    }

    /// The caller who created a ticket, which is used up; none if the ticket, or the key that created
    /// it, is invalid.
    pub(super) async fn redeem(&self, ticket: &RequestTicket) -> Result<Option<Caller>, ApiError> {
        let taken = in_time(async {
            // Any client can send made-up tickets.
            let _permit = self.ticket_limit.acquire().await.ok_or(ApiError::TooManyUnknownKeys)?;
            let (ticket, session_id) = (ticket.ticket.hash(), ticket.session_id);
            Ok::<_, ApiError>(
                self.pool.with(async |conn| take(conn, ticket, session_id).await).await?,
            )
        });
        let Some((tenant, Some(principal))) = taken.await? else { return Ok(None) };
        let (scope, subject) = (Scope::Read, None);
        let caller = Caller { tenant, scope, principal: Some(principal), subject };
        let is_valid = match principal {
            Principal::Key(id) => self.is_valid(id).await?,
            // The ticket expires with the token.
            Principal::Token(..) => self.tokens.is_some(),
        };
        Ok(is_valid.then_some(caller))
    }

    /// Reports whether a key is valid, without a check of its secret.
    pub(super) async fn is_valid(&self, id: KeyId) -> Result<bool, ApiError> {
        Ok(self.credential(id).await?.is_some())
    }

    async fn credential(&self, id: KeyId) -> Result<Option<StoredKey>, ApiError> {
        let cached = self.cache().get(&id).copied();
        if let Some(cached) = cached.filter(CachedKey::is_fresh) {
            return Ok(cached.credential);
        }
        let was_good = cached.is_some_and(|cached| cached.credential.is_some());
        let limit = if was_good { &self.known_key_limit } else { &self.unknown_key_limit };
        in_time(async {
            let _permit = limit.acquire().await.ok_or(ApiError::TooManyUnknownKeys)?;
            // A request earlier in the queue may have looked up the same key.
            let cached = self.cache().get(&id).copied().filter(CachedKey::is_fresh);
            match cached {
                Some(cached) => Ok(cached.credential),
                None => self.look_up(id).await,
            }
        })
        .await
    }

    async fn look_up(&self, id: KeyId) -> Result<Option<StoredKey>, ApiError> {
        // Taken before the query, so that a later revocation is noticed in time.
        let asked_at = Instant::now();
        let credential = self.pool.with(async |conn| find_key(conn, id).await).await?;
        let expires_in = credential.and_then(|found| found.expires_in).unwrap_or(CACHE_LIFETIME);
        let fresh_until = asked_at + expires_in.min(CACHE_LIFETIME);
        let mut cache = self.cache();
        make_room(&mut cache);
        cache.insert(id, CachedKey { credential, fresh_until });
        Ok(credential)
    }

    /// Reports whether this request must record the use of the key. True once per lookup.
    fn must_record_use(&self, id: KeyId) -> bool {
        let mut cache = self.cache();
        let credential = cache.get_mut(&id).and_then(|cached| cached.credential.as_mut());
        credential.is_some_and(|credential| std::mem::take(&mut credential.is_last_used_stale))
    }

    fn cache(&self) -> MutexGuard<'_, HashMap<KeyId, CachedKey>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedKey {
    fn is_fresh(&self) -> bool {
        Instant::now() < self.fresh_until
    }
}

/// Removes lookups when the cache is full, those of invalid keys first.
fn make_room(cache: &mut HashMap<KeyId, CachedKey>) {
    if cache.len() >= MAX_REMEMBERED {
        cache.retain(|_, cached| cached.credential.is_some());
    }
    if cache.len() >= MAX_REMEMBERED {
        cache.clear();
    }
}

async fn record_use(pool: Connections, id: KeyId) {
    let recorded = pool.with(async |conn| update_last_used(conn, id).await).await;
    if let Err(error) = recorded {
        tracing::warn!(key.id = %id, %error, "recording the use of a key failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::api_key::SecretHash;
    use crate::domain::ids::TenantId;

    fn cached(is_valid: bool) -> CachedKey {
        let credential = StoredKey {
            hash: SecretHash([0; 32]),
            tenant: TenantId::DEFAULT,
            scope: Scope::Read,
            expires_in: None,
            is_last_used_stale: false,
        };
        CachedKey { credential: is_valid.then_some(credential), fresh_until: Instant::now() }
    }

    #[test]
    fn invalid_keys_leave_the_cache_before_valid_ones() {
        let valid: Vec<KeyId> = (0..10).map(|_| KeyId::new()).collect();
        let mut cache: HashMap<_, _> = valid.iter().map(|id| (*id, cached(true))).collect();
        for _ in 0..2 * MAX_REMEMBERED {
            make_room(&mut cache);
            cache.insert(KeyId::new(), cached(false));
            assert!(cache.len() <= MAX_REMEMBERED);
        }
        assert!(valid.iter().all(|id| cache.contains_key(id)));
    }

    #[test]
    fn the_cache_is_bounded_for_valid_keys_too() {
        let mut cache = HashMap::new();
        for _ in 0..2 * MAX_REMEMBERED {
            make_room(&mut cache);
            cache.insert(KeyId::new(), cached(true));
            assert!(cache.len() <= MAX_REMEMBERED);
        }
    }
}
