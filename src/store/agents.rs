//! Agents of tenants: one row for each name, and one for each version.

use jiff_sqlx::Timestamp;
use serde_json::value::RawValue;
use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::agent::AgentName;
use crate::domain::ids::TenantId;

/// Maximum number of agents of a tenant: a page of the list reads all of them.
pub const MAX_AGENTS: i64 = 200;
/// Maximum number of versions of an agent, all of which are kept.
pub const MAX_VERSIONS: i32 = 1000;

/// A version of an agent.
#[derive(Debug, Clone)]
pub struct StoredAgent {
    /// Its number.
    pub version: i32,
    /// The profile, in the form of requests.
    pub profile: Box<RawValue>,
    /// The time of its creation.
    pub created_at: jiff::Timestamp,
}

/// An agent as an item of a list.
#[derive(Debug, Clone)]
pub struct AgentSummaryRow {
    /// The name.
    pub name: AgentName,
    /// The newest version.
    pub version: i32,
    /// The description in the newest version.
    pub description: Option<String>,
    /// The time of the newest version's creation.
    pub updated_at: jiff::Timestamp,
}

/// Lists the agents of a tenant, in the order of their names.
pub async fn list(
    conn: &mut PgConnection,
    tenant: TenantId,
) -> Result<Vec<AgentSummaryRow>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT name, version, description, updated_at AS "updated_at: Timestamp"
           FROM agents WHERE tenant_id = $1 ORDER BY name COLLATE "C""#,
        tenant.as_uuid(),
    )
    .fetch_all(conn)
    .await?;
    let summary = |name: String, version, description, updated_at: Timestamp| {
        let name = name.parse().map_err(unreadable("agents", "name"))?;
        Ok(AgentSummaryRow { name, version, description, updated_at: updated_at.to_jiff() })
    };
    rows.into_iter()
        .map(|row| summary(row.name, row.version, row.description, row.updated_at))
        .collect()
}

/// Finds a version of a tenant's agent; `None` selects the newest.
pub async fn find(
    conn: &mut PgConnection,
    tenant: TenantId,
    name: &AgentName,
    version: Option<i32>,
) -> Result<Option<StoredAgent>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT v.version, v.profile::text AS "profile!", v.created_at AS "created_at: Timestamp"
           FROM agents a JOIN agent_versions v USING (tenant_id, name)
           WHERE a.tenant_id = $1 AND a.name = $2 AND v.version = coalesce($3, a.version)"#,
        tenant.as_uuid(),
        name.as_str(),
        version,
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let profile =
        RawValue::from_string(row.profile).map_err(unreadable("agent_versions", "profile"))?;
    Ok(Some(StoredAgent { version: row.version, profile, created_at: row.created_at.to_jiff() }))
}

/// Serializes changes of a tenant's agents until the end of the transaction.
pub async fn lock(conn: &mut PgConnection, tenant: TenantId) -> Result<(), StoreError> {
    sqlx::query!("SELECT FROM tenants WHERE id = $1 FOR NO KEY UPDATE", tenant.as_uuid())
        .execute(conn)
        .await?;
    Ok(())
}

/// Counts the agents of a tenant.
pub async fn count(conn: &mut PgConnection, tenant: TenantId) -> Result<i64, StoreError> {
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM agents WHERE tenant_id = $1"#,
        tenant.as_uuid(),
    );
    Ok(count.fetch_one(conn).await?)
}

/// Inserts the next version of an agent, or its first one. The caller holds the lock.
pub async fn insert(
    conn: &mut PgConnection,
    tenant: TenantId,
    name: &AgentName,
    description: Option<&str>,
    profile: &RawValue,
) -> Result<(), StoreError> {
    sqlx::query!(
        "WITH agent AS (
             INSERT INTO agents (tenant_id, name, version, description) VALUES ($1, $2, 1, $3)
             ON CONFLICT (tenant_id, name) DO UPDATE
             SET version = agents.version + 1, description = $3, updated_at = now()
             RETURNING version)
         INSERT INTO agent_versions (tenant_id, name, version, profile)
         SELECT $1, $2, version, ($4::text)::json FROM agent",
        tenant.as_uuid(),
        name.as_str(),
        description,
        profile.get(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes an agent with all of its versions. Returns false if there is no such agent.
pub async fn delete(
    conn: &mut PgConnection,
    tenant: TenantId,
    name: &AgentName,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM agents WHERE tenant_id = $1 AND name = $2",
        tenant.as_uuid(),
        name.as_str(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}
