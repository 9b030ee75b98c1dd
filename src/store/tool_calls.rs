//! The ledger of tool calls. Rows are written by [`super::step`]; this reads them.

use sqlx::PgConnection;

use super::{StoreError, unreadable};
use crate::domain::ids::SessionId;
use crate::domain::tool::CallState;

/// Where one call stands.
#[derive(Debug)]
pub struct LedgerRow {
    /// The model's id of the call.
    pub tool_use_id: String,
    /// Where it stands.
    pub state: CallState,
    /// The file before the change; none if there was no file, or no change of one file.
    pub hash_before: Option<Vec<u8>>,
    /// The file after the change.
    pub hash_after: Option<Vec<u8>>,
    /// What the model reads, once the call has ended.
    pub result: Option<String>,
}

/// The rows of one assistant message, in the order of its calls.
pub async fn list(
    conn: &mut PgConnection,
    session_id: SessionId,
    message_seq: i32,
) -> Result<Vec<LedgerRow>, StoreError> {
    let rows = sqlx::query!(
        "SELECT tool_use_id, state, hash_before, hash_after, result
         FROM tool_calls WHERE session_id = $1 AND message_seq = $2 ORDER BY position",
        session_id.as_uuid(),
        message_seq,
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let state = CallState::parse(&row.state)
                .ok_or_else(|| unreadable("tool_calls", "state")(&row.state))?;
            Ok(LedgerRow {
                tool_use_id: row.tool_use_id,
                state,
                hash_before: row.hash_before,
                hash_after: row.hash_after,
                result: row.result,
            })
        })
        .collect()
}
