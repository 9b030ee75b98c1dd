//! Rows whose session does not exist. No foreign key prevents them in the tables that every turn writes
//! (`migrations/0039_deletion_of_sessions.sql`).

use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::ids::SessionId;
use crate::domain::verification::{Finding, Invariant, Location};
use crate::store::StoreError;

/// The sessions that rows of some tables name, in the order of their IDs.
#[derive(Debug)]
pub struct NamedSessions {
    /// One finding for each of them that does not exist.
    pub findings: Vec<Finding>,
    /// The last of them; none if no further session is named.
    pub last: Option<SessionId>,
}

/// Reads the next sessions after this one that rows name, and checks that they exist. Each session costs
/// one lookup in an index of each table, however many rows it has.
pub async fn check_named_sessions(
    conn: &mut PgConnection,
    after: Option<SessionId>,
    limit: i64,
) -> Result<NamedSessions, StoreError> {
    let rows = sqlx::query!(
        r#"WITH RECURSIVE named (id) AS (
               SELECT $1::uuid
               UNION ALL
               SELECT (
                   SELECT next.id FROM (
                       (SELECT session_id FROM runs
                        WHERE session_id > named.id ORDER BY session_id LIMIT 1)
                       UNION ALL
                       (SELECT session_id FROM messages
                        WHERE session_id > named.id ORDER BY session_id LIMIT 1)
                       UNION ALL
                       (SELECT session_id FROM tool_calls
                        WHERE session_id > named.id ORDER BY session_id LIMIT 1)
                       UNION ALL
                       (SELECT session_id FROM events
                        WHERE session_id > named.id ORDER BY session_id LIMIT 1)
                       UNION ALL
                       (SELECT session_id FROM requests
                        WHERE session_id > named.id ORDER BY session_id LIMIT 1)
                       UNION ALL
                       (SELECT session_id FROM seen_files
                        WHERE session_id > named.id ORDER BY session_id LIMIT 1)
                   ) AS next (id)
                   ORDER BY next.id LIMIT 1)
               FROM named WHERE named.id IS NOT NULL
           ), next AS MATERIALIZED (
               SELECT id FROM named OFFSET 1 LIMIT $2
           )
           SELECT next.id AS "id!",
                  CASE WHEN NOT EXISTS (SELECT FROM sessions s WHERE s.id = next.id) THEN
                      concat_ws(', ',
                          CASE WHEN EXISTS (SELECT FROM runs r WHERE r.session_id = next.id)
                              THEN 'runs' END,
                          CASE WHEN EXISTS (SELECT FROM messages m WHERE m.session_id = next.id)
                              THEN 'messages' END,
                          CASE WHEN EXISTS (SELECT FROM tool_calls c WHERE c.session_id = next.id)
                              THEN 'tool_calls' END,
                          CASE WHEN EXISTS (SELECT FROM events e WHERE e.session_id = next.id)
                              THEN 'events' END,
                          CASE WHEN EXISTS (SELECT FROM requests q WHERE q.session_id = next.id)
                              THEN 'requests' END,
                          CASE WHEN EXISTS (SELECT FROM seen_files f WHERE f.session_id = next.id)
                              THEN 'seen_files' END)
                  END AS tables
           FROM next WHERE next.id IS NOT NULL
           ORDER BY next.id"#,
        after.map_or(Uuid::nil(), SessionId::as_uuid),
        limit,
    )
    .fetch_all(conn)
    .await?;
    let last = rows.last().map(|row| row.id.into());
    let findings = rows.into_iter().filter_map(|row| {
        let detail = format!("the session does not exist, but has rows in {}", row.tables?);
        Some(Finding {
            invariant: Invariant::SessionExists,
            place: Location::of(row.id.into()),
            detail,
        })
    });
    Ok(NamedSessions { findings: findings.collect(), last })
}
