//! The ledger of tool calls. Rows are written by [`super::step`]; this reads them.

use sqlx::{Connection as _, PgConnection};

use super::{StoreError, unreadable};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::permission::{Awaits, Decision};
use crate::domain::tool::CallState;
use crate::domain::tool_error::ToolErrorType;

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
    /// The file that is changed, and what the model reads when it is.
    pub change: Option<(String, String)>,
    /// What the model reads, once the call has ended.
    pub result: Option<String>,
    /// Blocks of a result that is more than a text.
    pub content: Option<String>,
    /// Of what type the failure was.
    pub error_type: Option<ToolErrorType>,
    /// What the call waits for, or waited for.
    pub wait: Option<Wait>,
    /// The run of the sub-agent that it started.
    pub child_run: Option<RunId>,
}

/// What a call waits for, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Who must act.
    pub awaits: Awaits,
    /// What was decided.
    pub decision: Option<Decision>,
    /// Why it was denied, in the words of who decided.
    pub message: Option<String>,
    /// What runs in place of the model's input.
    pub input: Option<String>,
    /// SHA-256 of the input that was decided on.
    pub input_hash: Option<Vec<u8>>,
    /// Whether the time for an answer is over.
    pub is_overdue: bool,
}

impl LedgerRow {
    /// Whether the time for an answer is over, and there is none.
    fn is_given_up(&self) -> bool {
        let is_open = |wait: &Wait| wait.is_overdue && wait.decision.is_none();
        self.result.is_none() && self.wait.as_ref().is_some_and(is_open)
    }
}

/// The rows of one assistant message, in the order of its calls. Where one says that nobody
/// answered in time, that is final.
pub async fn list_final(
    conn: &mut PgConnection,
    session_id: SessionId,
    message_seq: i32,
) -> Result<Vec<LedgerRow>, StoreError> {
    let rows = list(conn, session_id, message_seq).await?;
    if !rows.iter().any(LedgerRow::is_given_up) {
        return Ok(rows);
    }
    // Who answers holds the session: an answer that came in time is waited for, and one that
    // comes later is refused.
    let mut transaction = conn.begin().await?;
    sqlx::query!("SELECT id FROM sessions WHERE id = $1 FOR NO KEY UPDATE", session_id.as_uuid())
        .fetch_optional(&mut *transaction)
        .await?;
    let rows = list(&mut transaction, session_id, message_seq).await?;
    transaction.commit().await?;
    Ok(rows)
}

/// The rows of one assistant message, in the order of its calls.
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
                child_run: row.child_run_id.map(Into::into),
            })
        })
        .collect()
}
