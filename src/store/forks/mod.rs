//! Forks: sessions whose history begins with messages of other sessions.

mod insert;

use sqlx::PgConnection;
use uuid::Uuid;

use super::{StoreError, unreadable};
use crate::domain::fork::{MessageName, OpenCall};
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::message::{Content, View};
use crate::domain::tool::CallState;

pub use insert::{NewFork, insert};

/// Returns the number of the last message of a session that is to be forked. Until the end of the
/// caller's transaction the session and those that it inherits from cannot be deleted.
pub async fn lock_source(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
) -> Result<Option<i32>, StoreError> {
    // In the order of their IDs, as for a deletion of several sessions. Runs of these sessions do
    // not wait for the lock.
    sqlx::query!(
        "SELECT FROM sessions
         WHERE id = ANY (ARRAY(SELECT source_id FROM inherited WHERE session_id = $1) || $1)
           AND tenant_id = $2
         ORDER BY id
         FOR KEY SHARE",
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_all(&mut *conn)
    .await?;
    let last = sqlx::query_scalar!(
        "SELECT last_message_seq FROM sessions WHERE id = $1 AND tenant_id = $2 FOR SHARE",
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(last)
}

/// Finds a message by its ID for clients, in a history that ends with `last`.
pub async fn find_message(
    conn: &mut PgConnection,
    session_id: SessionId,
    last: i32,
    name: &MessageName,
) -> Result<Option<i32>, StoreError> {
    let id = match name {
        MessageName::Seq(seq) => {
            return Ok(i32::try_from(*seq).ok().filter(|seq| (1..=last).contains(seq)));
        }
        // Postgres texts contain no NUL.
        MessageName::Id(id) if id.contains('\0') => return Ok(None),
        MessageName::Id(id) => id,
    };
    let found = sqlx::query_scalar!(
        r#"SELECT seq AS "seq!" FROM history WHERE session_id = $1 AND message_id = $2
           ORDER BY seq DESC LIMIT 1"#,
        session_id.as_uuid(),
        id,
    )
    .fetch_optional(conn)
    .await?;
    Ok(found)
}

/// Lists the calls of a message, in its order, with their states. The list is empty if the message
/// has no calls.
pub async fn open_calls(
    conn: &mut PgConnection,
    session_id: SessionId,
    seq: i32,
) -> Result<Vec<OpenCall>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT stored_in AS "stored_in!", content::text AS "content!" FROM history
           WHERE session_id = $1 AND seq = $2 AND role = 'assistant'"#,
        session_id.as_uuid(),
        seq,
    )
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(Vec::new()) };
    let ledger = sqlx::query!(
        "SELECT tool_use_id, state FROM tool_calls WHERE session_id = $1 AND message_seq = $2",
        row.stored_in,
        seq,
    )
    .fetch_all(conn)
    .await?;
    let content = Content::parse(row.content).map_err(unreadable("messages", "content"))?;
    let blocks = content.blocks().map_err(unreadable("messages", "content"))?;
    let ids = blocks.iter().filter_map(|block| match &block.view {
        View::ToolUse(call) => Some(call.id.clone().into_owned()),
        View::Text(_)
        | View::Thinking(_)
        | View::RedactedThinking
        | View::ToolResult { .. }
        | View::ServerToolUse { .. }
        | View::Other { .. } => None,
    });
    let open = ids.map(|tool_use_id| {
        let state = ledger.iter().find(|row| row.tool_use_id == tool_use_id);
        let state = state.and_then(|row| CallState::parse(&row.state));
        // A call without a ledger row may have run.
        OpenCall { tool_use_id, state: state.unwrap_or(CallState::Interrupted) }
    });
    Ok(open.collect())
}

/// Finds the fork that was created with a key, and the hash of the request that created it.
pub async fn find_earlier(
    conn: &mut PgConnection,
    tenant: TenantId,
    source: SessionId,
    key: &str,
) -> Result<Option<(SessionId, Vec<u8>)>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT id, fork_fingerprint AS "fingerprint!" FROM sessions
           WHERE forked_from = $1 AND fork_key = $2 AND tenant_id = $3"#,
        source.as_uuid(),
        key,
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| (row.id.into(), row.fingerprint)))
}

/// Lists some of the forks of these sessions.
pub async fn list_ids(
    conn: &mut PgConnection,
    sources: &[SessionId],
    limit: i64,
) -> Result<Vec<SessionId>, StoreError> {
    let sources: Vec<Uuid> = sources.iter().map(|id| id.as_uuid()).collect();
    let ids = sqlx::query_scalar!(
        "SELECT id FROM sessions WHERE forked_from = ANY ($1) ORDER BY id LIMIT $2",
        &sources,
        limit,
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(Into::into).collect())
}

/// Lists a session and its sub-agents' sessions, and all forks if wanted, in the order in which
/// several sessions are locked.
pub async fn list_tree(
    conn: &mut PgConnection,
    root: SessionId,
    with_forks: bool,
) -> Result<Vec<SessionId>, StoreError> {
    let ids = sqlx::query_scalar!(
        r#"WITH RECURSIVE tree AS (
               SELECT id FROM sessions WHERE id = $1
               UNION ALL
               SELECT s.id FROM tree, LATERAL (
                   SELECT id FROM sessions WHERE parent_session_id = tree.id
                   UNION ALL
                   SELECT id FROM sessions WHERE $2 AND forked_from = tree.id) AS s
           )
           SELECT id AS "id!" FROM tree ORDER BY id"#,
        root.as_uuid(),
        with_forks,
    )
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().map(Into::into).collect())
}
