//! Forks: sessions whose history begins with messages of other sessions.

mod closing_results;
mod insert;

use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use crate::domain::fork::{CopyPoint, MessageName};
use crate::domain::ids::{SessionId, TenantId};

pub use closing_results::closing_results;
pub use insert::{NewFork, insert};

/// Returns the present state of a session whose files are to be copied.
pub async fn copy_point(
    conn: &mut PgConnection,
    tenant: TenantId,
    id: SessionId,
) -> Result<Option<CopyPoint>, StoreError> {
    let row = sqlx::query!(
        r#"SELECT last_message_seq, now() AS "now!: Timestamp" FROM sessions
           WHERE id = $1 AND tenant_id = $2"#,
        id.as_uuid(),
        tenant.as_uuid(),
    )
    .fetch_optional(conn)
    .await?;
    Ok(row.map(|row| CopyPoint { last: row.last_message_seq, at: row.now.to_jiff() }))
}

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
