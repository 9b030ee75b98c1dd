//! The ledger of tool calls. [`super::step`] writes the rows.

use sqlx::{Connection as _, PgConnection};

use super::{StoreError, unreadable};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::permission::{Awaits, Decision};
use crate::domain::tool::CallState;
use crate::domain::tool_error::ToolErrorType;

/// The ledger row of a call.
#[derive(Debug)]
pub struct LedgerRow {
    /// The model's ID of the call.
    pub tool_use_id: String,
    /// The state.
    pub state: CallState,
    /// SHA-256 of the file before the change; `None` if there was no file, or if the call changes
    /// none.
    pub hash_before: Option<Vec<u8>>,
    /// SHA-256 of the file after the change.
    pub hash_after: Option<Vec<u8>>,
    /// The path of the changed file, and the result that the model reads after the change.
    pub change: Option<(String, String)>,
    /// The result as the model reads it, once the call has ended.
    pub result: Option<String>,
    /// Content blocks of a result that is more than a text.
    pub content: Option<String>,
    /// The type of the failure.
    pub error_type: Option<ToolErrorType>,
    /// The answer that the call awaits or awaited.
    pub wait: Option<Wait>,
    /// The run of the sub-agent that the call started.
    pub sub_agent_run: Option<RunId>,
}

/// The wait of a call for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// The party whose answer is awaited.
    pub awaits: Awaits,
    /// The decision.
    pub decision: Option<Decision>,
    /// The reason of a denial, in the words of the person who decided.
    pub message: Option<String>,
    /// The input that replaces the model's.
    pub input: Option<String>,
    /// SHA-256 of the input that was decided on.
    pub input_hash: Option<Vec<u8>>,
    /// True if the deadline has passed.
    pub is_overdue: bool,
}

impl LedgerRow {
    /// Returns true if the deadline has passed without an answer.
    fn is_given_up(&self) -> bool {
        let is_open = |wait: &Wait| wait.is_overdue && wait.decision.is_none();
        self.result.is_none() && self.wait.as_ref().is_some_and(is_open)
    }
}

/// The type of the failure of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallErrorType {
    /// The message that contains the call.
    pub message_seq: i32,
    /// The ID of the call.
    pub tool_use_id: String,
    /// The type, if the call failed and its failure has one.
    pub kind: Option<ToolErrorType>,
}

/// Lists the types of the failures of the calls in these messages of a session.
pub async fn list_error_types(
    conn: &mut PgConnection,
    session_id: SessionId,
    message_seqs: &[i32],
) -> Result<Vec<CallErrorType>, StoreError> {
    let rows = sqlx::query!(
        "SELECT message_seq, tool_use_id, error_type FROM tool_calls
         WHERE session_id = $1 AND message_seq = ANY ($2)",
        session_id.as_uuid(),
        message_seqs,
    )
    .fetch_all(conn)
    .await?;
    let read = rows.into_iter().map(|row| CallErrorType {
        message_seq: row.message_seq,
        tool_use_id: row.tool_use_id,
        kind: row.error_type.as_deref().and_then(ToolErrorType::parse),
    });
    Ok(read.collect())
}

/// Lists the rows of an assistant message, in the order of its calls, after pending answers were
/// committed: a row that is overdue here stays overdue.
pub async fn list_final(
    conn: &mut PgConnection,
    session_id: SessionId,
    message_seq: i32,
) -> Result<Vec<LedgerRow>, StoreError> {
    let rows = list(conn, session_id, message_seq).await?;
    if !rows.iter().any(LedgerRow::is_given_up) {
        return Ok(rows);
    }
    // Answering locks the session: an answer in time is waited for, and a later one is refused.
    let mut transaction = conn.begin().await?;
    sqlx::query!("SELECT id FROM sessions WHERE id = $1 FOR NO KEY UPDATE", session_id.as_uuid())
        .fetch_optional(&mut *transaction)
        .await?;
    let rows = list(&mut transaction, session_id, message_seq).await?;
    transaction.commit().await?;
    Ok(rows)
}

/// Lists the rows of an assistant message, in the order of its calls.
pub async fn list(
    conn: &mut PgConnection,
    session_id: SessionId,
    message_seq: i32,
) -> Result<Vec<LedgerRow>, StoreError> {
    let rows = sqlx::query!(
        r#"SELECT tool_use_id, state, hash_before, hash_after, change_path, change_result, result,
                  content::text, error_type, awaits, decision, decision_message, input::text,
                  input_hash, child_run_id, coalesce(answer_by <= now(), false) AS "is_overdue!"
           FROM tool_calls WHERE session_id = $1 AND message_seq = $2 ORDER BY position"#,
        session_id.as_uuid(),
        message_seq,
    )
    .fetch_all(conn)
    .await?;
    rows.into_iter()
        .map(|row| {
            let state = CallState::parse(&row.state)
                .ok_or_else(|| unreadable("tool_calls", "state")(&row.state))?;
            let wait = row.awaits.as_deref().and_then(Awaits::parse).map(|awaits| Wait {
                awaits,
                decision: row.decision.as_deref().and_then(Decision::parse),
                message: row.decision_message,
                input: row.input,
                input_hash: row.input_hash,
                is_overdue: row.is_overdue,
            });
            Ok(LedgerRow {
                tool_use_id: row.tool_use_id,
                state,
                hash_before: row.hash_before,
                hash_after: row.hash_after,
                change: row.change_path.zip(row.change_result),
                result: row.result,
                content: row.content,
                error_type: row.error_type.as_deref().and_then(ToolErrorType::parse),
                wait,
                sub_agent_run: row.child_run_id.map(Into::into),
            })
        })
        .collect()
}
