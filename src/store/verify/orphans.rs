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
    let rows = sqlx::query_file!(
        "src/store/verify/named_sessions.sql",
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
