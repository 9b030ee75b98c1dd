//! Authentication with tokens (JWT) of the identity provider.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::Span;

use super::caller::Caller;
use crate::domain::api_key::Scope;
use crate::domain::ids::TenantId;
use crate::domain::principal::Principal;
use crate::http::error::ApiError;
use crate::service::deadline::in_time;
use crate::store::connections::Connections;
use crate::store::tenants::find_or_insert;
use crate::tokens::Issuer;

/// The maximum number of cached tenants.
const MAX_REMEMBERED: usize = 10_000;

/// The issuer of tokens, and a cache of the tenants that they name.
#[derive(Debug)]
pub(super) struct Tokens {
    issuer: Arc<Issuer>,
    pool: Connections,
    tenants: Mutex<HashMap<String, TenantId>>,
}

impl Tokens {
    pub(super) fn new(issuer: Arc<Issuer>, pool: Connections) -> Self {
        Self { issuer, pool, tenants: Mutex::default() }
    }

    /// The caller of a token; none if the token is invalid. A token without a known scope is refused
    /// like one that lacks `read`.
    pub(super) async fn caller(&self, token: &str) -> Result<Option<Caller>, ApiError> {
        let claims = match self.issuer.verify(token).await {
            Ok(claims) => claims,
            Err(reason) => {
                tracing::debug!(%reason, "token refused");
                return Ok(None);
            }
        };
        Span::current().record("token.subject", &*claims.subject);
        let scope = claims.scope.ok_or(ApiError::Forbidden(Scope::Read))?;
        let tenant = self.tenant(&claims.tenant).await?;
        Ok(Some(Caller {
            tenant,
            scope,
            principal: Some(Principal::Token(claims.holder, claims.until)),
            subject: Some(claims.subject.as_str().into()),
            browser: None,
        }))
    }

    /// The tenant with this name. The first token that names a tenant creates it: the issuer decides
    /// which tenants exist.
    async fn tenant(&self, name: &str) -> Result<TenantId, ApiError> {
        let known = self.tenants().get(name).copied();
        if let Some(id) = known {
            return Ok(id);
        }
        let id = in_time(async {
            Ok::<_, ApiError>(self.pool.with(async |conn| find_or_insert(conn, name).await).await?)
        })
        .await?;
        tracing::debug!(tenant.id = %id, tenant.name = name, "tenant resolved from token");
        let mut tenants = self.tenants();
        if tenants.len() >= MAX_REMEMBERED {
            tenants.clear();
        }
        tenants.insert(name.to_owned(), id);
        Ok(id)
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<String, TenantId>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
