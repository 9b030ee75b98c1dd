//! Deleting an agent.

use sqlx::PgConnection;

use super::agent::name_taken;
use super::shared;
use crate::domain::agent::AgentName;
use crate::domain::ids::TenantId;
use crate::service::agent_error::AgentError;
use crate::service::deadline::in_time;
use crate::service::error::Error;
use crate::service::state::Service;
use crate::service::transaction::in_transaction;
use crate::service::versions::check_version;
use crate::store::agents::{delete, find, lock};

/// A request to delete an agent.
pub(crate) struct DeleteAgent<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) name: &'a AgentName,
    /// The versions of which the agent must have one; none for any.
    pub(crate) expected: Option<&'a [i64]>,
}

/// Deletes an agent of the tenant with all of its versions.
pub(crate) async fn delete_agent(service: &Service, request: DeleteAgent<'_>) -> Result<(), Error> {
    let deleted = in_transaction(service, request.tenant, async |conn| request.delete(conn).await);
    if in_time(deleted).await? {
        return Ok(());
    }
    let name = request.name;
    match shared::find(&service.defaults.agents.current(), name) {
        Some(agent) => Err(name_taken(name, agent.source)),
        None => Err(AgentError::NotFound(name.to_string()).into()),
    }
}

impl DeleteAgent<'_> {
    /// Deletes the agent if it has an expected version. Returns false if the tenant has no agent of
    /// the name.
    async fn delete(&self, conn: &mut PgConnection) -> Result<bool, Error> {
        lock(conn, self.tenant).await?;
        if let Some(found) = find(conn, self.tenant, self.name, None).await? {
            check_version(self.expected, found.version.into())?;
        }
        Ok(delete(conn, self.tenant, self.name).await?)
    }
}
