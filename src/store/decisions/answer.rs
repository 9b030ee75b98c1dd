//! Recording an answer to a waiting call.

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use sqlx::PgConnection;

use super::LockedCall;
use crate::domain::permission::Decision;
use crate::domain::tool::CallState;
use crate::domain::tool_error::ToolErrorType;
use crate::store::StoreError;

/// A decision on a call.
#[derive(Debug)]
pub struct NewDecision<'a> {
    /// Allow or deny.
    pub decision: Decision,
    /// The reason of a denial.
    pub message: Option<&'a str>,
    /// The input that replaces the model's.
    pub input: Option<&'a RawValue>,
}

/// Records the decision on an open call.
pub async fn decide(
    conn: &mut PgConnection,
    call: &LockedCall,
    new: &NewDecision<'_>,
) -> Result<(), StoreError> {
    let input = new.input.map(RawValue::get);
    let hash = input.map(|input| Sha256::digest(input.as_bytes()).to_vec());
    sqlx::query!(
        "UPDATE tool_calls SET decision = $4, decision_message = $5, decided_at = clock_timestamp(),
                input = ($6::text)::json, input_hash = coalesce($7, input_hash)
         WHERE session_id = $1 AND message_seq = $2 AND tool_use_id = $3",
        call.session_id.as_uuid(),
        call.message_seq,
        call.tool_use_id,
        new.decision.as_str(),
        new.message,
        input,
        hash,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// The result of a call that the client executed.
#[derive(Debug)]
pub struct NewResult<'a> {
    /// The result as text.
    pub text: &'a str,
    /// The result as a JSON array of content blocks, if it is more than a text.
    pub content: Option<&'a str>,
    /// True if the call failed.
    pub is_error: bool,
}

impl NewResult<'_> {
    /// The state of a call with this result.
    pub const fn state(&self) -> CallState {
        if self.is_error { CallState::Failed } else { CallState::Done }
    }

    /// The type of the failure, if its text shows it.
    pub fn error_type(&self) -> Option<ToolErrorType> {
        self.is_error.then(|| ToolErrorType::of_text(self.text)).flatten()
    }
}

/// Records the result of an open call.
pub async fn finish(
    conn: &mut PgConnection,
    call: &LockedCall,
    new: &NewResult<'_>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE tool_calls SET state = $4, result = $5, content = ($6::text)::json,
                error_type = $7, finished_at = clock_timestamp()
         WHERE session_id = $1 AND message_seq = $2 AND tool_use_id = $3",
        call.session_id.as_uuid(),
        call.message_seq,
        call.tool_use_id,
        new.state().as_str(),
        new.text,
        new.content,
        new.error_type().map(ToolErrorType::as_str),
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Sets the time at which the run of a call continues: now, if no call of the round awaits an
/// answer, otherwise the first deadline. Returns true if the run continues now. A run that a worker
/// holds finds the answer in the ledger.
pub async fn plan_wake(conn: &mut PgConnection, call: &LockedCall) -> Result<bool, StoreError> {
    let goes_on = sqlx::query_scalar!(
        r#"UPDATE runs SET wake_at = coalesce(
               (SELECT min(c.answer_by) FROM tool_calls c
                WHERE c.session_id = $2 AND c.message_seq = $3 AND c.state = 'planned'
                  AND c.awaits IS NOT NULL AND c.decision IS NULL),
               now())
           WHERE id = $1 AND status = 'requires_action'
           RETURNING wake_at <= now() AS "goes_on!""#,
        call.run_id.as_uuid(),
        call.session_id.as_uuid(),
        call.message_seq,
    )
    .fetch_optional(conn)
    .await?;
    Ok(goes_on.unwrap_or(false))
}
