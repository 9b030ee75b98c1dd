//! Connections with a fixed view: the rows of one tenant, or of all.

use sqlx::PgConnection;

use super::{Connections, TenantConnections};
use crate::domain::ids::TenantId;

/// Connections of a pool that all see the same rows.
#[derive(Debug, Clone)]
pub struct Scope {
    connections: Connections,
    tenant: Option<TenantId>,
}

impl From<Connections> for Scope {
    /// The connections of a role that sees the rows of all tenants.
    fn from(connections: Connections) -> Self {
        Self { connections, tenant: None }
    }
}

impl TenantConnections {
    /// The connections that see this tenant's rows.
    pub fn scope(&self, tenant: TenantId) -> Scope {
        Scope { connections: self.0.clone(), tenant: Some(tenant) }
    }
}

impl Scope {
    /// Runs `work` on a connection; otherwise like [`Connections::with`].
    pub async fn with<T, E: From<sqlx::Error>>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        self.connections.checkout(self.tenant).await?.run(work).await
    }
}
