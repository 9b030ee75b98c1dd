//! Browser tokens: short-lived credentials that a back end creates for the browser of an end user.

use std::time::Duration;

use serde::Deserialize;

use super::deadline::in_time;
use super::error::{Error, FieldError};
use super::json::not_null;
use super::state::Service;
use crate::domain::browser_token::{
    BrowserGrant, BrowserScope, BrowserTarget, BrowserToken, BrowserTokenRecord,
};
use crate::domain::ids::{BrowserTokenId, SessionId, TenantId};
use crate::domain::name::is_client_name;
use crate::domain::principal::Principal;
use crate::store::browser_tokens::{self as store, NewBrowserToken};

/// The lifetime if the request has none, in seconds.
const DEFAULT_LIFETIME: u32 = 15 * 60;
/// The shortest and the longest lifetime, in seconds.
const LIFETIMES: std::ops::RangeInclusive<u32> = 60..=24 * 60 * 60;
const LIFETIME_PROBLEM: &str = "is not 60 to 86400";

/// A new browser token. Exactly one of `session_id` and `user` is required.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateBrowserToken {
    /// The session for which the token is valid.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = String, pattern = "^ses_[0-9a-f]{32}$")]
    session_id: Option<String>,
    /// The user for whose sessions the token is valid, present and future: those with this `user`.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = String, min_length = 1, max_length = 255)]
    user: Option<String>,
    /// What the browser may do. `post` includes results of client tools; no scope includes another.
    #[schema(value_type = Vec<BrowserScope>, min_items = 1)]
    scopes: Vec<String>,
    /// The lifetime in seconds, 60 to 86400. When absent, 900.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = u32, minimum = 60, maximum = 86_400)]
    expires_in: Option<u32>,
}

/// A new lifetime of a browser token.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenewBrowserToken {
    /// The lifetime from now on, in seconds, 60 to 86400. When absent, 900.
    #[serde(default, deserialize_with = "not_null")]
    #[schema(value_type = u32, minimum = 60, maximum = 86_400)]
    expires_in: Option<u32>,
}

/// A new browser token with its secret.
pub(crate) struct CreatedBrowserToken {
    pub(crate) token: BrowserToken,
    pub(crate) record: BrowserTokenRecord,
}

impl CreateBrowserToken {
    fn check(self) -> Result<(BrowserGrant, Duration), Error> {
        let mut errors = Vec::new();
        let target = self.target().map_err(|error| errors.push(error));
        let mut scopes = Vec::new();
        if self.scopes.is_empty() {
            errors.push(FieldError::new("/scopes", "is empty"));
        }
        for (index, word) in self.scopes.iter().enumerate() {
            if let Some(scope) = BrowserScope::parse(word) {
                scopes.push(scope);
                continue;
            }
            let message = format!("{word:?} is not a scope: read, post, decide or cancel");
            errors.push(FieldError::new(format!("/scopes/{index}"), message));
        }
        scopes.sort_unstable();
        scopes.dedup();
        let lifetime = lifetime(self.expires_in).map_err(|error| errors.push(error));
        match (target, lifetime) {
            (Ok(target), Ok(lifetime)) if errors.is_empty() => {
                Ok((BrowserGrant { target, scopes }, lifetime))
            }
            _ => Err(Error::Validation(errors)),
        }
    }

    fn target(&self) -> Result<BrowserTarget, FieldError> {
        match (&self.session_id, &self.user) {
            (Some(id), None) => match id.parse::<SessionId>() {
                Ok(id) => Ok(BrowserTarget::Session(id)),
                Err(error) => Err(FieldError::new("/session_id", error.to_string())),
            },
            (None, Some(user)) if !is_client_name(user) => {
                let message = "is not 1 to 255 characters without control characters";
                Err(FieldError::new("/user", message))
            }
            (None, Some(user)) => Ok(BrowserTarget::User(user.clone())),
            (Some(_), Some(_)) => {
                Err(FieldError::new("/user", "cannot be combined with /session_id"))
            }
            (None, None) => {
                Err(FieldError::new("", "has neither `session_id` nor `user`; one is required"))
            }
        }
    }
}

fn lifetime(seconds: Option<u32>) -> Result<Duration, FieldError> {
    let seconds = seconds.unwrap_or(DEFAULT_LIFETIME);
    if !LIFETIMES.contains(&seconds) {
        return Err(FieldError::new("/expires_in", LIFETIME_PROBLEM));
    }
    Ok(Duration::from_secs(seconds.into()))
}

/// Creates a browser token, and deletes expired ones.
pub(crate) async fn create_browser_token(
    service: &Service,
    (tenant, principal): (TenantId, Option<Principal>),
    request: CreateBrowserToken,
) -> Result<CreatedBrowserToken, Error> {
    let (grant, lifetime) = request.check()?;
    let token = BrowserToken::generate().map_err(Error::internal)?;
    let (id, hash) = (token.id(), token.hash());
    let new = NewBrowserToken { id, hash, tenant, principal, grant: &grant, lifetime };
    match (in_time(store_token(service, &new)).await?, grant.target) {
        (Some(record), _) => Ok(CreatedBrowserToken { token, record }),
        (None, BrowserTarget::Session(id)) => Err(Error::SessionNotFound(id.to_string())),
        (None, BrowserTarget::User(_)) => {
            Err(Error::Internal("a browser token of a user was not stored".to_owned()))
        }
    }
}

async fn store_token(
    service: &Service,
    new: &NewBrowserToken<'_>,
) -> Result<Option<BrowserTokenRecord>, Error> {
    service.admission_pool.with(async |conn| store::sweep(conn).await).await?;
    Ok(service.pool.with(new.tenant, async |conn| store::insert(conn, new).await).await?)
}

/// Gives a browser token a new lifetime.
pub(crate) async fn renew_browser_token(
    service: &Service,
    (tenant, id): (TenantId, BrowserTokenId),
    request: RenewBrowserToken,
) -> Result<BrowserTokenRecord, Error> {
    let lifetime = lifetime(request.expires_in).map_err(|error| Error::Validation(vec![error]))?;
    let renewed = service
        .pool
        .with(tenant, async |conn| Ok::<_, Error>(store::renew(conn, tenant, id, lifetime).await?));
    in_time(renewed).await?.ok_or_else(|| Error::BrowserTokenNotFound(id.to_string()))
}

/// Revokes a browser token.
pub(crate) async fn revoke_browser_token(
    service: &Service,
    tenant: TenantId,
    id: BrowserTokenId,
) -> Result<(), Error> {
    let deleted = service
        .pool
        .with(tenant, async |conn| Ok::<_, Error>(store::delete(conn, tenant, id).await?));
    let was_valid = in_time(deleted).await?;
    if was_valid { Ok(()) } else { Err(Error::BrowserTokenNotFound(id.to_string())) }
}

/// Revokes the browser tokens of a session or of a user. Returns their number.
pub(crate) async fn revoke_browser_tokens(
    service: &Service,
    tenant: TenantId,
    target: &BrowserTarget,
) -> Result<i64, Error> {
    let deleted = service
        .pool
        .with(tenant, async |conn| Ok::<_, Error>(store::delete_of(conn, tenant, target).await?));
    in_time(deleted).await
}
