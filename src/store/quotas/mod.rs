//! Quotas of tenants: the limits, the use, and the check in the transaction that uses more.

mod reservation;
mod sizes;
mod watch;

use sqlx::PgConnection;

use super::StoreError;
use crate::domain::ids::TenantId;
use crate::domain::quota::{QuotaExceeded, QuotaLimits, QuotaResource, QuotaUse};

pub use reservation::{ByteQuota, ReservedBytes};
pub use sizes::{
    UnmeasuredFolders, list_limited_workspaces, list_unmeasured, measure, measure_new,
    set_workspace_size,
};
pub use watch::Quotas;

/// Finds the limits of a tenant: its own, otherwise the defaults.
pub async fn find_limits(
    conn: &mut PgConnection,
    tenant: TenantId,
    defaults: QuotaLimits,
) -> Result<QuotaLimits, StoreError> {
    let mut limits = defaults;
    for (resource, max) in list_own(conn, tenant).await? {
        limits.set(resource, max);
    }
    Ok(limits)
}

/// Lists the limits that replace the defaults for a tenant. Resources that this version does not know
/// are left out.
pub async fn list_own(
    conn: &mut PgConnection,
    tenant: TenantId,
) -> Result<Vec<(QuotaResource, Option<i64>)>, StoreError> {
    let rows =
        sqlx::query!("SELECT resource, max FROM quotas WHERE tenant_id = $1", tenant.as_uuid())
            .fetch_all(conn)
            .await?;
    let known =
        rows.into_iter().filter_map(|row| Some((QuotaResource::parse(&row.resource)?, row.max)));
    Ok(known.collect())
}

/// Sets the limit of a tenant for a resource; none for no limit, whatever the default is.
pub async fn set(
    conn: &mut PgConnection,
    tenant: TenantId,
    resource: QuotaResource,
    max: Option<i64>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO quotas (tenant_id, resource, max) VALUES ($1, $2, $3)
         ON CONFLICT (tenant_id, resource) DO UPDATE SET max = excluded.max",
        tenant.as_uuid(),
        resource.as_str(),
        max,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes the limit of a tenant for a resource, so that the default applies. Returns false if there
/// was none.
pub async fn remove(
    conn: &mut PgConnection,
    tenant: TenantId,
    resource: QuotaResource,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "DELETE FROM quotas WHERE tenant_id = $1 AND resource = $2",
        tenant.as_uuid(),
        resource.as_str(),
    )
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Checks the limits of a tenant until the end of the caller's transaction: no other transaction that
/// calls this uses the same remainder. Returns the first quota that does not allow its need.
pub async fn check(
    conn: &mut PgConnection,
    tenant: TenantId,
    limits: &QuotaLimits,
    needs: &[(QuotaResource, i64)],
) -> Result<Option<QuotaExceeded>, StoreError> {
    let limited = needs.iter().filter_map(|(of, needed)| Some((*of, *needed, limits.get(*of)?)));
    let limited: Vec<(QuotaResource, i64, i64)> = limited.collect();
    if limited.is_empty() {
        return Ok(None);
    }
    // A separate statement: the next one sees what was committed while this one waited.
    sqlx::query!("SELECT FROM tenants WHERE id = $1 FOR NO KEY UPDATE", tenant.as_uuid())
        .execute(&mut *conn)
        .await?;
    for (resource, needed, limit) in limited {
        let used = count(conn, tenant, resource).await?;
        if let Some(exceeded) = QuotaExceeded::check(resource, used, needed, limit) {
            return Ok(Some(exceeded));
        }
    }
    Ok(None)
}

/// Lists the use of all resources.
pub async fn list_uses(
    conn: &mut PgConnection,
    tenant: TenantId,
    defaults: QuotaLimits,
) -> Result<Vec<QuotaUse>, StoreError> {
    let limits = find_limits(conn, tenant, defaults).await?;
    measure(conn, tenant).await?;
    let mut uses = Vec::new();
    for resource in QuotaResource::ALL {
        let limit = limits.get(resource);
        let used = if resource == QuotaResource::WorkspaceBytes && limit.is_none() {
            None
        } else {
            Some(count(conn, tenant, resource).await?)
        };
        uses.push(QuotaUse { resource, used, limit });
    }
    Ok(uses)
}

/// Counts the used units of a resource. Bytes are those that were measured.
pub async fn count(
    conn: &mut PgConnection,
    tenant: TenantId,
    resource: QuotaResource,
) -> Result<i64, StoreError> {
    let tenant_id = tenant.as_uuid();
    Ok(match resource {
        QuotaResource::Sessions => {
            let query = sqlx::query_scalar!(
                r#"SELECT count(*) AS "count!" FROM sessions WHERE tenant_id = $1"#,
                tenant_id,
            );
            query.fetch_one(conn).await?
        }
        QuotaResource::StoredBytes => {
            let query = sqlx::query_scalar!(
                r#"SELECT ((SELECT coalesce(sum(bytes), 0) FROM stored_sizes WHERE tenant_id = $1)
                         + (SELECT coalesce(sum(pg_column_size(profile)), 0) FROM agent_versions
                            WHERE tenant_id = $1)
                         + (SELECT coalesce(sum(size), 0) FROM files
                            WHERE tenant_id = $1))::bigint AS "bytes!""#,
                tenant_id,
            );
            query.fetch_one(conn).await?
        }
        QuotaResource::WorkspaceBytes => {
            let query = sqlx::query_scalar!(
                r#"SELECT coalesce(sum(bytes), 0)::bigint AS "bytes!" FROM workspace_sizes
                   WHERE tenant_id = $1"#,
                tenant_id,
            );
            query.fetch_one(conn).await?
        }
        QuotaResource::AgentVersions => {
            let query = sqlx::query_scalar!(
                r#"SELECT count(*) AS "count!" FROM agent_versions WHERE tenant_id = $1"#,
                tenant_id,
            );
            query.fetch_one(conn).await?
        }
        QuotaResource::Webhooks => {
            let query = sqlx::query_scalar!(
                r#"SELECT count(*) AS "count!" FROM webhooks WHERE tenant_id = $1"#,
                tenant_id,
            );
            query.fetch_one(conn).await?
        }
    })
}
