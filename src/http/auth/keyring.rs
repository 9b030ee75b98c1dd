//! The credentials that the service accepts: API keys, browser tokens, tickets, and tokens of an identity
//! provider.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use tokio_util::task::TaskTracker;

use super::browser_tokens::BrowserTokens;
use super::caller::Caller;
use super::lookup_cache::{AT_A_TIME, Found, LookupCache, LookupLimits, MAX_WAITING, PATIENCE};
use super::ticket::RequestTicket;
use super::tokens::Tokens;
use crate::domain::api_key::{ApiKey, Scope};
use crate::domain::browser_token::{BrowserGrant, BrowserToken};
use crate::domain::ids::KeyId;
use crate::domain::principal::Principal;
use crate::http::error::ApiError;
use crate::service::concurrency_limit::ConcurrencyLimit;
use crate::service::deadline::in_time;
use crate::store::api_keys::{StoredKey, find_key, update_last_used};
use crate::store::connections::Connections;
use crate::store::stream_tickets::take;
use crate::tokens::Issuer;

/// The accepted credentials.
#[derive(Debug)]
pub(in crate::http) struct Keyring {
    pool: Connections,
    /// Runs updates of the last use, which no request waits for.
    tasks: TaskTracker,
    limits: LookupLimits,
    ticket_limit: ConcurrencyLimit,
    keys: LookupCache<KeyId, StoredKey>,
    browser_tokens: BrowserTokens,
    /// None: tokens are not accepted.
    tokens: Option<Tokens>,
}

impl Found for StoredKey {
    fn expires_in(&self) -> Option<Duration> {
        self.expires_in
    }
}

impl Keyring {
    pub(in crate::http) fn new(
        pool: Connections,
        tasks: TaskTracker,
        issuer: Option<Arc<Issuer>>,
    ) -> Self {
        Self {
            tokens: issuer.map(|issuer| Tokens::new(issuer, pool.clone())),
            browser_tokens: BrowserTokens::new(pool.clone()),
            pool,
            tasks,
            limits: LookupLimits::new(),
            ticket_limit: ConcurrencyLimit::new(AT_A_TIME, MAX_WAITING, PATIENCE),
            keys: LookupCache::default(),
        }
    }

    /// The caller of a key; none if the key is invalid.
    pub(super) async fn caller(&self, key: &ApiKey) -> Result<Option<Caller>, ApiError> {
        let found = self.key(key.id()).await?.filter(|found| found.hash == key.hash());
        let Some(StoredKey { tenant, scope, is_last_used_stale, .. }) = found else {
            return Ok(None);
        };
        if is_last_used_stale && self.must_record_use(key.id()) {
            self.tasks.spawn(record_use(self.pool.clone(), key.id()));
        }
        let principal = Some(Principal::Key(key.id()));
        Ok(Some(Caller { tenant, scope, principal, subject: None, browser: None }))
    }

    /// The caller of a browser token; none if the token is invalid.
    pub(super) async fn browser(&self, token: &BrowserToken) -> Result<Option<Caller>, ApiError> {
        let found = self.browser_tokens.find(token.id(), &self.limits).await?;
        let found =
            found.filter(|found| found.hash == token.hash() && self.trusts(found.is_from_token));
        Ok(found.map(|found| found.caller(token.id())))
    }

    /// The caller of a token; none if the token is invalid.
    pub(super) async fn bearer(&self, token: &str) -> Result<Option<Caller>, ApiError> {
        match &self.tokens {
            Some(tokens) => tokens.caller(token).await,
            None => Ok(None),
        }
    }

    /// The caller who created a ticket, which is used up; none if the ticket, or the credential that
    /// created it, is invalid.
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
        let caller = Caller { tenant, scope, principal: Some(principal), subject, browser: None };
        match principal {
            Principal::Key(_) | Principal::Token(..) => {
                Ok(self.is_valid(principal).await?.then_some(caller))
            }
            Principal::BrowserToken(id) => {
                let found = self.browser_tokens.find(id, &self.limits).await?;
                let found = found.filter(|found| self.trusts(found.is_from_token));
                Ok(found.map(|found| found.caller(id)))
            }
        }
    }

    /// Refuses a request of a browser for which its token is not valid.
    pub(super) async fn authorize_browser(
        &self,
        caller: &Caller,
        grant: &BrowserGrant,
        parts: &mut Parts,
    ) -> Result<(), ApiError> {
        self.browser_tokens.authorize(caller, grant, parts).await
    }

    /// Reports whether a credential is valid, without a check of its secret.
    pub(super) async fn is_valid(&self, principal: Principal) -> Result<bool, ApiError> {
        match principal {
            Principal::Key(id) => Ok(self.key(id).await?.is_some()),
            // What was created with a token expires with the token.
            Principal::Token(..) => Ok(self.tokens.is_some()),
            Principal::BrowserToken(id) => {
                let found = self.browser_tokens.find(id, &self.limits).await?;
                Ok(found.is_some_and(|found| self.trusts(found.is_from_token)))
            }
        }
    }

    /// Reports whether the creator of a browser token would be accepted today: tokens of an identity
    /// provider are not, if the operator has removed the provider.
    const fn trusts(&self, is_from_token: bool) -> bool {
        !is_from_token || self.tokens.is_some()
    }

    async fn key(&self, id: KeyId) -> Result<Option<StoredKey>, ApiError> {
        let query = async || Ok(self.pool.with(async |conn| find_key(conn, id).await).await?);
        self.keys.get(id, &self.limits, query).await
    }

    /// Reports whether this request must record the use of the key. True once per lookup.
    fn must_record_use(&self, id: KeyId) -> bool {
        let taken = self.keys.change(id, |key| std::mem::take(&mut key.is_last_used_stale));
        taken.unwrap_or(false)
    }
}

async fn record_use(pool: Connections, id: KeyId) {
    let recorded = pool.with(async |conn| update_last_used(conn, id).await).await;
    if let Err(error) = recorded {
        tracing::warn!(key.id = %id, %error, "recording the use of a key failed");
    }
}
