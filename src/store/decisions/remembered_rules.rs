//! Permission rules that a session remembers: users add them with their decisions.

use sqlx::PgConnection;

use crate::domain::ids::SessionId;
use crate::domain::permission::Rule;
use crate::store::{StoreError, unreadable};

/// Maximum number of permission rules that a session remembers.
const MAX_REMEMBERED: usize = 200;

/// Returns the permission rules that users have added to a session with their decisions.
pub async fn list_remembered(
    conn: &mut PgConnection,
    session_id: SessionId,
) -> Result<Vec<Rule>, StoreError> {
    let remembered = sqlx::query_scalar!(
        r#"SELECT remembered::text AS "remembered!" FROM sessions WHERE id = $1"#,
        session_id.as_uuid(),
    )
    .fetch_one(conn)
    .await?;
    serde_json::from_str(&remembered).map_err(unreadable("sessions", "remembered"))
}

/// Adds a permission rule to a locked session. Returns false if the session has no room for it.
pub async fn remember(
    conn: &mut PgConnection,
    session_id: SessionId,
    rule: Rule,
) -> Result<bool, StoreError> {
    let mut rules = list_remembered(conn, session_id).await?;
    if rules.contains(&rule) {
        return Ok(true);
    }
    if rules.len() >= MAX_REMEMBERED {
        return Ok(false);
    }
    rules.push(rule);
    let rules = serde_json::to_string(&rules).map_err(unreadable("sessions", "remembered"))?;
    sqlx::query!(
        "UPDATE sessions SET remembered = ($2::text)::json WHERE id = $1",
        session_id.as_uuid(),
        rules,
    )
    .execute(conn)
    .await?;
    Ok(true)
}
