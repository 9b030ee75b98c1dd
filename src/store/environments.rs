//! Environments of the protocol of Claude Managed Agents.

use std::collections::BTreeMap;

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{StoreError, unreadable};
use crate::domain::environment::Environment;
use crate::domain::ids::{EnvironmentId, TenantId};

/// Maximum number of environments of a tenant: a page of the list reads all of them.
pub const MAX_ENVIRONMENTS: usize = 200;

struct Row {
    id: Uuid,
    name: String,
    description: Option<String>,
    metadata: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    archived_at: Option<Timestamp>,
}

impl TryFrom<Row> for Environment {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let metadata: Result<BTreeMap<String, String>, _> = serde_json::from_str(&row.metadata);
        Ok(Self {
            id: row.id.into(),
            name: row.name,
            description: row.description,
            metadata: metadata.map_err(unreadable("environments", "metadata"))?,
            created_at: row.created_at.to_jiff(),
            updated_at: row.updated_at.to_jiff(),
            archived_at: row.archived_at.map(Timestamp::to_jiff),
        })
    }
}

/// Lists the environments of a tenant in the order of their creation, or only the one with this id.
pub async fn list(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: Option<EnvironmentId>,
) -> Result<Vec<Environment>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"SELECT id, name, description, metadata::text AS "metadata!",
                  created_at AS "created_at: Timestamp", updated_at AS "updated_at: Timestamp",
                  archived_at AS "archived_at: Timestamp"
           FROM environments WHERE tenant_id = $1 AND ($2::uuid IS NULL OR id = $2) ORDER BY id"#,
        tenant.as_uuid(),
        id.map(EnvironmentId::as_uuid),
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter().map(TryInto::try_into).collect()
}

/// Inserts an environment. The database sets its times.
pub async fn insert(
    conn: &mut PgConnection,
    tenant: TenantId,
    new: &Environment,
) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO environments (id, tenant_id, name, description, metadata)
         VALUES ($1, $2, $3, $4, ($5::text)::json)",
        new.id.as_uuid(),
        tenant.as_uuid(),
        new.name,
        new.description,
        json(&new.metadata)?,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Stores the changes of an environment. The database sets the time of the change.
pub async fn update(
    conn: &mut PgConnection,
    tenant: TenantId,
    changed: &Environment,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE environments
         SET name = $3, description = $4, metadata = ($5::text)::json, updated_at = now(),
             archived_at = CASE WHEN $6 THEN coalesce(archived_at, now()) END
         WHERE tenant_id = $1 AND id = $2",
        tenant.as_uuid(),
        changed.id.as_uuid(),
        changed.name,
        changed.description,
        json(&changed.metadata)?,
        changed.archived_at.is_some(),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Deletes an environment. Returns false if there is no such environment.
pub async fn delete(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: EnvironmentId,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM environments WHERE tenant_id = $1 AND id = $2",
        tenant.as_uuid(),
        id.as_uuid(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

fn json(metadata: &BTreeMap<String, String>) -> Result<String, StoreError> {
    serde_json::to_string(metadata).map_err(unreadable("environments", "metadata"))
}
