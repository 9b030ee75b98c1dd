//! Deleting a session with all that belongs to it.

use sqlx::PgConnection;
use uuid::Uuid;

use super::{StoreError, budgets};
use crate::domain::ids::{RunId, SessionId, TenantId};

/// A session that is about to be deleted.
#[derive(Debug)]
pub struct Doomed {
    /// The number of its newest event.
    pub last_seq: i64,
    /// Whether the folder that it works in is one of its own.
    pub has_own_folder: bool,
    /// Its runs that have not settled; those that wait come first, or one of them would begin when
    /// the live one ends.
    pub open: Vec<RunId>,
}

/// Finds a session with its open runs, which all stay locked for the rest of the caller's
/// transaction: no message is accepted, and no run is taken up, reserved for or settled.
pub async fn lock(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
) -> Result<Option<Doomed>, StoreError> {
    let session = sqlx::query!(
        r#"SELECT last_seq, workspace IS NULL AS "has_own_folder!"
           FROM sessions WHERE id = $1 AND tenant_id = $2 FOR UPDATE"#,
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(session) = session else { return Ok(None) };
    let open = sqlx::query_scalar!(
        "SELECT id FROM runs
         WHERE session_id = $1 AND status IN ('queued', 'running', 'requires_action')
         ORDER BY status = 'queued' DESC, accepted_seq
         FOR UPDATE",
        id.as_uuid(),
    )
    .fetch_all(conn)
    .await?;
    let open = open.into_iter().map(Into::into).collect();
    let (last_seq, has_own_folder) = (session.last_seq, session.has_own_folder);
    Ok(Some(Doomed { last_seq, has_own_folder, open }))
}

/// Deletes sessions that are locked, and of which no other is a fork. What their requests used stays
/// in the sums of their owner.
///
/// The order of the locks is that of everybody else: the session, its runs, requests, budgets.
pub async fn delete(
    conn: &mut PgConnection,
    tenant: TenantId,
    sessions: &[SessionId],
) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = sessions.iter().map(|id| id.as_uuid()).collect();
    keep_usage(conn, &ids).await?;
    budgets::add_up_spent(conn, tenant).await?;
    // What forks refer to must not be in the way of their sources.
    sqlx::query!("DELETE FROM inherited WHERE session_id = ANY ($1)", &ids)
        .execute(&mut *conn)
        .await?;
    // All other rows go with them.
    sqlx::query!("DELETE FROM sessions WHERE id = ANY ($1)", &ids).execute(conn).await?;
    Ok(())
}

/// Replaces the requests of sessions by their sums. Two who delete lock the sums in the same order.
async fn keep_usage(conn: &mut PgConnection, ids: &[Uuid]) -> Result<(), StoreError> {
    sqlx::query!(
        "WITH gone AS (
             DELETE FROM requests WHERE session_id = ANY ($1) RETURNING *
         )
         INSERT INTO deleted_usage AS d
             (tenant_id, day, model, requests, input_tokens, cache_creation_input_tokens,
              cache_read_input_tokens, output_tokens, cache_creation_1h_input_tokens,
              thinking_tokens, web_search_requests, web_fetch_requests, cost)
         SELECT tenant_id, (created_at AT TIME ZONE 'UTC')::date AS day, model, count(stop_reason),
                sum(input_tokens), sum(cache_creation_input_tokens), sum(cache_read_input_tokens),
                sum(output_tokens), sum(cache_creation_1h_input_tokens), sum(thinking_tokens),
                sum(web_search_requests), sum(web_fetch_requests), sum(cost)
         FROM gone
         GROUP BY tenant_id, day, model
         ORDER BY tenant_id, day, model
         ON CONFLICT (tenant_id, day, model) DO UPDATE SET
             requests = d.requests + excluded.requests,
             input_tokens = d.input_tokens + excluded.input_tokens,
             cache_creation_input_tokens =
                 d.cache_creation_input_tokens + excluded.cache_creation_input_tokens,
             cache_read_input_tokens = d.cache_read_input_tokens + excluded.cache_read_input_tokens,
             output_tokens = d.output_tokens + excluded.output_tokens,
             cache_creation_1h_input_tokens =
                 d.cache_creation_1h_input_tokens + excluded.cache_creation_1h_input_tokens,
             thinking_tokens = d.thinking_tokens + excluded.thinking_tokens,
             web_search_requests = d.web_search_requests + excluded.web_search_requests,
             web_fetch_requests = d.web_fetch_requests + excluded.web_fetch_requests,
             cost = coalesce(d.cost + excluded.cost, d.cost, excluded.cost)",
        ids,
    )
    .execute(conn)
    .await?;
    Ok(())
}
