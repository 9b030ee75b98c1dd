//! The message of a run that a client wants to retry.

use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::run_options::RunOptions;
use crate::domain::run_status::RunStatus;

/// A run and the state of its session, read together.
#[derive(Debug)]
pub struct RetriedRun {
    /// The state of the run.
    pub status: RunStatus,
    /// The blocks of its message.
    pub input: String,
    /// The options of its message.
    pub options: RunOptions,
    /// True if its message is in the history.
    pub has_begun: bool,
    /// The newest run of the session, which may be this one.
    pub newest: RunId,
    /// The state of the newest run.
    pub newest_status: RunStatus,
    /// The number of the newest event of the session.
    pub last_seq: i64,
}

/// Finds a run with its message.
pub async fn find_retried(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    run_id: RunId,
) -> Result<Option<RetriedRun>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT r.status AS "status!", r.input::text AS "input!", r.options::text AS "options!",
                  EXISTS (SELECT FROM messages m
                          WHERE m.session_id = r.session_id AND m.run_id = r.id) AS "has_begun!",
                  newest.id AS "newest!", newest.status AS "newest_status!",
                  s.last_seq AS "last_seq!"
           FROM runs r
           JOIN sessions s ON s.id = r.session_id
           JOIN LATERAL (
               SELECT n.id, n.status FROM runs n WHERE n.session_id = r.session_id
               ORDER BY n.accepted_seq DESC LIMIT 1
           ) AS newest ON true
           WHERE r.id = $1 AND r.session_id = $2 AND r.tenant_id = $3"#,
        run_id.as_uuid(),
        session_id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let status =
        |text: &String| RunStatus::parse(text).ok_or_else(|| unreadable("runs", "status")(text));
    Ok(Some(RetriedRun {
        status: status(&row.status)?,
        newest_status: status(&row.newest_status)?,
        input: row.input,
        options: serde_json::from_str(&row.options).map_err(unreadable("runs", "options"))?,
        has_begun: row.has_begun,
        newest: row.newest.into(),
        last_seq: row.last_seq,
    }))
}
