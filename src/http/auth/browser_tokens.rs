//! Authentication and authorization with browser tokens.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{FromRequestParts as _, MatchedPath};
use http::request::Parts;

use super::browser_routes::{BrowserRoute, browser_route};
use super::caller::Caller;
use super::lookup_cache::{Found, LookupCache, LookupLimits};
use crate::domain::api_key::{Scope, SecretHash};
use crate::domain::browser_token::{BrowserGrant, BrowserScope, BrowserTarget};
use crate::domain::ids::{BrowserTokenId, SessionId, TenantId};
use crate::domain::principal::Principal;
use crate::http::error::ApiError;
use crate::http::extract::path::{ChatPath, SessionPath};
use crate::service::Error;
use crate::service::deadline::in_time;
use crate::store::browser_tokens::{StoredBrowserToken, find, is_session_of};
use crate::store::connections::Connections;
use crate::store::sessions::find_by_external_id;

/// The maximum number of remembered sessions of tokens.
const MAX_REMEMBERED: usize = 10_000;

/// A valid browser token.
#[derive(Debug, Clone)]
pub(super) struct FoundBrowserToken {
    pub(super) hash: SecretHash,
    pub(super) is_from_token: bool,
    tenant: TenantId,
    grant: Arc<BrowserGrant>,
    expires_in: Duration,
}

impl FoundBrowserToken {
    pub(super) fn caller(self, id: BrowserTokenId) -> Caller {
        Caller {
            tenant: self.tenant,
            // The routes of browsers, and not this scope, limit what a browser can do.
            scope: Scope::Write,
            principal: Some(Principal::BrowserToken(id)),
            subject: None,
            browser: Some(self.grant),
        }
    }
}

impl Found for FoundBrowserToken {
    fn expires_in(&self) -> Option<Duration> {
        Some(self.expires_in)
    }
}

impl From<StoredBrowserToken> for FoundBrowserToken {
    fn from(stored: StoredBrowserToken) -> Self {
        let StoredBrowserToken { hash, tenant, grant, expires_in, is_from_token } = stored;
        Self { hash, is_from_token, tenant, grant: Arc::new(grant), expires_in }
    }
}

/// The browser tokens of the service.
#[derive(Debug)]
pub(super) struct BrowserTokens {
    pool: Connections,
    cache: LookupCache<BrowserTokenId, FoundBrowserToken>,
    /// Sessions that belong to a token. Whose session it is never changes.
    sessions: Mutex<HashSet<(BrowserTokenId, SessionId)>>,
}

impl BrowserTokens {
    pub(super) fn new(pool: Connections) -> Self {
        Self { pool, cache: LookupCache::default(), sessions: Mutex::default() }
    }

    /// The token with this id; none if it is not valid. Its secret is not checked.
    pub(super) async fn find(
        &self,
        id: BrowserTokenId,
        limits: &LookupLimits,
    ) -> Result<Option<FoundBrowserToken>, ApiError> {
        let query = async || {
            let stored = self.pool.with(async |conn| find(conn, id).await).await?;
            Ok(stored.map(FoundBrowserToken::from))
        };
        self.cache.get(id, limits, query).await
    }

    /// Refuses a route that is not for browsers, a missing scope, and sessions of others, which look as
    /// if they did not exist.
    pub(super) async fn authorize(
        &self,
        caller: &Caller,
        grant: &BrowserGrant,
        parts: &mut Parts,
    ) -> Result<(), ApiError> {
        let path = parts.extensions.get::<MatchedPath>().map(MatchedPath::as_str);
        let route = path.and_then(|path| browser_route(&parts.method, path));
        let Some(route) = route else {
            return Err(ApiError::NoBrowserTokens("this route needs an API key"));
        };
        match route {
            BrowserRoute::Info | BrowserRoute::ConversationInBody => return Ok(()),
            BrowserRoute::Sessions if matches!(grant.target, BrowserTarget::User(_)) => {
                return caller.require(BrowserScope::Read);
            }
            BrowserRoute::Sessions => {
                let reason = "this route needs a token of a user, or an API key";
                return Err(ApiError::NoBrowserTokens(reason));
            }
            BrowserRoute::Session(scope) => caller.require(scope)?,
            BrowserRoute::Conversation(scope) => {
                caller.require(scope)?;
                return self.authorize_conversation(caller, parts).await;
            }
        }
        let SessionPath(session_id) = SessionPath::from_request_parts(parts, &()).await?;
        if self.has_session(caller, grant, session_id).await? {
            return Ok(());
        }
        Err(Error::SessionNotFound(session_id.to_string()).into())
    }

    /// Refuses a conversation of others, which looks as if it did not exist.
    async fn authorize_conversation(
        &self,
        caller: &Caller,
        parts: &mut Parts,
    ) -> Result<(), ApiError> {
        let ChatPath(chat_id) = ChatPath::from_request_parts(parts, &()).await?;
        let missing = Error::SessionNotFound(chat_id.clone());
        // The database cannot compare a text with a NUL.
        if chat_id.contains('\0') {
            return Err(missing.into());
        }
        let query = Box::pin(
            self.pool.with(async |conn| find_by_external_id(conn, caller.tenant, &chat_id).await),
        );
        let session = in_time(async { Ok::<_, ApiError>(query.await?) }).await?;
        match session {
            Some(session) if caller.may_use(&session) => Ok(()),
            _ => Err(missing.into()),
        }
    }

    async fn has_session(
        &self,
        caller: &Caller,
        grant: &BrowserGrant,
        session_id: SessionId,
    ) -> Result<bool, ApiError> {
        if grant.target == BrowserTarget::Session(session_id) {
            return Ok(true);
        }
        let Some(Principal::BrowserToken(id)) = caller.principal else { return Ok(false) };
        if self.sessions.lock().unwrap_or_else(PoisonError::into_inner).contains(&(id, session_id))
        {
            return Ok(true);
        }
        let query = Box::pin(self.pool.with(async |conn| {
            is_session_of(conn, caller.tenant, session_id, &grant.target).await
        }));
        let belongs = in_time(async { Ok::<_, ApiError>(query.await?) }).await?;
        if belongs {
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            if sessions.len() >= MAX_REMEMBERED {
                sessions.clear();
            }
            sessions.insert((id, session_id));
        }
        Ok(belongs)
    }
}
