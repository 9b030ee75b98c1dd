//! Callers with a token of the identity provider.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::Span;

use super::caller::Caller;
use crate::domain::api_key::Scope;
use crate::domain::ids::TenantId;
use crate::domain::pass::Pass;
use crate::http::error::ApiError;
use crate::http::server::deadline::in_time;
use crate::store::connections::Connections;
use crate::store::tenants::find_or_insert;
use crate::tokens::Issuer;

/// Tenants remembered.
const MAX_REMEMBERED: usize = 10_000;

/// Whose tokens are good, and which tenants they have named.
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

    /// Whom this token is about; none if it is not good. A token that allows nothing here is
    /// refused as one that lacks the smaller scope.
    pub(super) async fn caller(&self, token: &str) -> Result<Option<Caller>, ApiError> {
        let said = match self.issuer.verify(token).await {
            Ok(said) => said,
            Err(reason) => {
                tracing::debug!(%reason, "a token is refused");
                return Ok(None);
            }
        };
        Span::current().record("token.subject", &*said.subject);
        let scope = said.scope.ok_or(ApiError::Forbidden(Scope::Read))?;
        let tenant = self.tenant(&said.tenant).await?;
        Ok(Some(Caller { tenant, scope, pass: Some(Pass::Token(said.holder, said.until)) }))
    }

    /// The tenant of this name, which is made when it is first named: that is the issuer's to do.
    async fn tenant(&self, name: &str) -> Result<TenantId, ApiError> {
        let known = self.tenants().get(name).copied();
        if let Some(id) = known {
            return Ok(id);
        }
        let id = in_time(async {
            let mut conn = self.pool.acquire().await?;
            let id = find_or_insert(&mut conn, name).await?;
            conn.give_back();
            Ok(id)
        })
        .await?;
        tracing::debug!(tenant.id = %id, tenant.name = name, "a token names a tenant");
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
