//! The sizes of what sessions keep: in the database, and in their folders.
//!
//! Steps do not count bytes. A measurement reads the rows that were added to sessions since the
//! last one, without fetching their contents.

use std::time::{Duration, Instant};

use sqlx::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::domain::ids::{SessionId, TenantId};
use crate::store::StoreError;

/// Maximum number of sessions of one measurement.
const SESSIONS: i64 = 200;
/// Maximum number of events, and of messages, that one measurement reads of a session.
const ROWS: i64 = 10_000;
/// Time after which no further measurement begins. A later call measures the rest.
const TIME_LIMIT: Duration = Duration::from_secs(2);

/// Measures the sessions of a tenant that have grown since the last measurement. If another process
/// does so, its results are used as far as they are there. The caller has no transaction open: its
/// locks on sessions would stay until the end.
pub async fn measure(conn: &mut PgConnection, tenant: TenantId) -> Result<(), StoreError> {
    let started = Instant::now();
    while started.elapsed() < TIME_LIMIT {
        let mut transaction = conn.begin().await?;
        let is_alone = sqlx::query_scalar!(
            r#"SELECT pg_try_advisory_xact_lock(
                   hashtextextended('stored_sizes ' || $1, 0)) AS "it!""#,
            tenant.as_uuid().to_string(),
        )
        .fetch_one(&mut *transaction)
        .await?;
        let measured = if is_alone { add_grown(&mut transaction, tenant, None).await? } else { 0 };
        transaction.commit().await?;
        if measured == 0 {
            break;
        }
    }
    Ok(())
}

/// Measures a session in the transaction that creates it, so that the next check counts it.
pub async fn measure_new(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
) -> Result<(), StoreError> {
    while add_grown(conn, tenant, Some(id)).await? > 0 {}
    Ok(())
}

/// Adds what was stored since the last measurement. Returns the number of measured sessions.
async fn add_grown(
    conn: &mut PgConnection,
    tenant: TenantId,
    only: Option<SessionId>,
) -> Result<u64, StoreError> {
    // In the order of their IDs, as everywhere where several sessions are locked.
    let measured = sqlx::query!(
        "WITH grown AS (
             SELECT s.id, z.session_id IS NULL AS is_new,
                    coalesce(z.event_seq, 0) AS event_seq, coalesce(z.message_seq, 0) AS message_seq,
                    least(s.last_seq, coalesce(z.event_seq, 0) + $3) AS to_event,
                    least(s.last_message_seq, coalesce(z.message_seq, 0) + $3) AS to_message,
                    pg_column_size(s.settings) + pg_column_size(s.metadata) AS settings_bytes
             FROM sessions s LEFT JOIN stored_sizes z ON z.session_id = s.id
             WHERE s.tenant_id = $1 AND ($4::uuid IS NULL OR s.id = $4)
               AND (z.session_id IS NULL OR z.event_seq < s.last_seq
                    OR z.message_seq < s.last_message_seq)
             ORDER BY s.id
             LIMIT $2
         )
         INSERT INTO stored_sizes AS z (session_id, tenant_id, bytes, event_seq, message_seq)
         SELECT g.id, $1,
                CASE WHEN g.is_new THEN g.settings_bytes ELSE 0 END
                + (SELECT coalesce(sum(pg_column_size(e.body)), 0) FROM events e
                   WHERE e.session_id = g.id AND e.seq > g.event_seq AND e.seq <= g.to_event)
                -- Messages that a fork shares are counted once, with the session that has them.
                + (SELECT coalesce(sum(pg_column_size(m.content)), 0) FROM messages m
                   WHERE m.session_id = g.id AND m.seq > g.message_seq AND m.seq <= g.to_message),
                g.to_event, g.to_message
         FROM grown g
         ORDER BY g.id
         ON CONFLICT (session_id) DO UPDATE SET
             bytes = z.bytes + excluded.bytes, event_seq = excluded.event_seq,
             message_seq = excluded.message_seq",
        tenant.as_uuid(),
        SESSIONS,
        ROWS,
        only.map(SessionId::as_uuid),
    )
    .execute(conn)
    .await?;
    Ok(measured.rows_affected())
}

/// Records the size of a session's folder. Does nothing if the session is deleted.
pub async fn set_workspace_size(
    conn: &mut PgConnection,
    session_id: SessionId,
    bytes: i64,
) -> Result<(), StoreError> {
    sqlx::query!(
        "INSERT INTO workspace_sizes (session_id, tenant_id, bytes)
         SELECT id, tenant_id, $2 FROM sessions WHERE id = $1
         ON CONFLICT (session_id) DO UPDATE SET bytes = excluded.bytes, measured_at = now()",
        session_id.as_uuid(),
        bytes,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// A selection of sessions whose folders have no recorded size.
#[derive(Debug, Clone, Copy)]
pub struct UnmeasuredFolders {
    /// The owner; `None` for the sessions of all tenants.
    pub tenant: Option<TenantId>,
    /// Only sessions after this one.
    pub after: Option<SessionId>,
    /// Maximum number of sessions.
    pub limit: i64,
}

/// Lists sessions whose folders have no recorded size, in the order of their IDs.
pub async fn list_unmeasured(
    conn: &mut PgConnection,
    range: UnmeasuredFolders,
) -> Result<Vec<SessionId>, StoreError> {
    let after = range.after.map_or(Uuid::nil(), SessionId::as_uuid);
    // Two statements, so that each has the plan for its index.
    let ids = if let Some(tenant) = range.tenant {
        sqlx::query_scalar!(
            "SELECT s.id FROM sessions s
             WHERE s.tenant_id = $1 AND s.id > $2
               AND s.workspace IS NULL AND s.parent_session_id IS NULL
               AND NOT EXISTS (SELECT FROM workspace_sizes w WHERE w.session_id = s.id)
             ORDER BY s.id LIMIT $3",
            tenant.as_uuid(),
            after,
            range.limit,
        )
        .fetch_all(conn)
        .await?
    } else {
        sqlx::query_scalar!(
            "SELECT s.id FROM sessions s
             WHERE s.id > $1 AND s.workspace IS NULL AND s.parent_session_id IS NULL
               AND NOT EXISTS (SELECT FROM workspace_sizes w WHERE w.session_id = s.id)
             ORDER BY s.id LIMIT $2",
            after,
            range.limit,
        )
        .fetch_all(conn)
        .await?
    };
    Ok(ids.into_iter().map(Into::into).collect())
}

/// Lists the tenants with a quota of their own for the bytes of workspaces.
pub async fn list_limited_workspaces(conn: &mut PgConnection) -> Result<Vec<TenantId>, StoreError> {
    let tenants = sqlx::query_scalar!(
        "SELECT tenant_id FROM quotas WHERE resource = 'workspace_bytes' AND max IS NOT NULL"
    )
    .fetch_all(conn)
    .await?;
    Ok(tenants.into_iter().map(Into::into).collect())
}
