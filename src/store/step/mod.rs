//! Steps: the only way in which a worker writes. A step is committed as a whole, under its fence.
//!
//! Messages, ledger rows, events and the state of the run change in a single statement. So no crash
//! leaves an assistant message without its ledger rows, and a worker that lost its claim writes
//! nothing. The statement is also a single round trip. It writes the steps of many runs at once, which
//! costs the database less than a statement for each.

mod call_record;
mod columns;
mod commit_status;
mod encoded;
mod end_reasons;
#[macro_use]
mod statement;
mod step_commit;
mod write;

use sqlx::{Connection as _, PgConnection};

use super::{StoreError, session_state, sub_agents};
use crate::domain::claim::Fence;
use crate::domain::ids::{RunId, SessionId};
pub use call_record::{CallRecord, ChangeRecord, NewWait};
pub use commit_status::{CommitStatus, commit_status};
pub use encoded::EncodedStep;
pub use step_commit::{Committed, NewMessage, StepCommit};
pub use write::{Written, WrittenStep, write};

/// Commits the step that follows the first `steps` ones. Returns `None`, and writes nothing, if the
/// worker has lost its claim.
pub async fn commit(
    conn: &mut PgConnection,
    session_id: SessionId,
    fence: Fence,
    steps: i32,
    step: &StepCommit<'_>,
) -> Result<Option<Committed>, StoreError> {
    // Whatever the worker knows of budgets.
    let step = &StepCommit { is_budgeted: true, ..*step };
    let encoded = EncodedStep::of(session_id, fence, steps, step)?;
    if step.is_one_statement() {
        match write_one(conn, &encoded).await? {
            Written::Committed(written) => return Ok(Some(written.with_events(step.events))),
            Written::Fenced => return Ok(None),
            Written::Skipped => {}
        }
    }
    let mut transaction = conn.begin().await?;
    let written = write_locked(&mut transaction, &encoded).await?;
    if written.is_some() {
        session_state::store(&mut transaction, session_id, step.state_changes).await?;
        if step.has_end_reasons() {
            end_reasons::store(&mut transaction, session_id, step).await?;
        }
        for sub_agent in step.sub_agents {
            sub_agents::insert(&mut transaction, (session_id, fence.run_id), sub_agent).await?;
        }
        if step.waits.is_some() {
            plan_wake(&mut transaction, session_id, fence.run_id).await?;
        }
    }
    transaction.commit().await?;
    Ok(written.map(|written| written.with_events(step.events)))
}

/// Writes a step of a session after other transactions have released it.
async fn write_locked(
    transaction: &mut PgConnection,
    step: &EncodedStep,
) -> Result<Option<WrittenStep>, StoreError> {
    let mut written = write_one(transaction, step).await?;
    if matches!(written, Written::Skipped) {
        let session_id = step.session_id.as_uuid();
        sqlx::query!("SELECT FROM sessions WHERE id = $1 FOR NO KEY UPDATE", session_id)
            .fetch_optional(&mut *transaction)
            .await?;
        written = write_one(transaction, step).await?;
    }
    Ok(match written {
        Written::Committed(written) => Some(written),
        // A session that is still not found is deleted.
        Written::Fenced | Written::Skipped => None,
    })
}

async fn write_one(conn: &mut PgConnection, step: &EncodedStep) -> Result<Written, StoreError> {
    let written = write(conn, &[step]).await?;
    Ok(written.into_iter().next().unwrap_or(Written::Fenced))
}

/// Sets the time at which a waiting run continues: at once if its calls were answered meanwhile or
/// its cancellation was requested, otherwise at the first deadline of its open calls.
async fn plan_wake(
    conn: &mut PgConnection,
    session_id: SessionId,
    run_id: RunId,
) -> Result<(), StoreError> {
    sqlx::query!(
        "UPDATE runs SET wake_at = CASE WHEN cancel_requested_at IS NULL THEN coalesce(
             (SELECT min(c.answer_by) FROM tool_calls c
              WHERE c.session_id = $2 AND c.run_id = $1 AND c.state = 'planned'
                AND c.awaits IS NOT NULL AND c.decision IS NULL),
             now()) ELSE now() END
         WHERE id = $1",
        run_id.as_uuid(),
        session_id.as_uuid(),
    )
    .execute(conn)
    .await?;
    Ok(())
}
