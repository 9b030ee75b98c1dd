//! Runs that cannot be settled by the normal path.

use crate::domain::claim::Fence;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::SessionId;
use crate::domain::outcome::{ErrorType, Outcome, RunError};
use crate::domain::run_status::RunStatus;
use crate::domain::stop_reason::StopReason;
use crate::store::StoreError;
use crate::store::give_up::give_up;
use crate::store::retry::in_time;
use crate::worker::services::Services;

/// Fails a run by a change of its row alone.
pub(in crate::worker) async fn fail_unread(
    services: &Services,
    session_id: SessionId,
    fence: Fence,
) {
    tracing::error!(
        run.id = %fence.run_id,
        "run failed without being read; its earlier log lines have the cause"
    );
    if let Err(error) = in_time(try_fail_unread(services, session_id, fence)).await {
        tracing::warn!(run.id = %fence.run_id, %error, "run could not be settled as failed");
    }
}

async fn try_fail_unread(
    services: &Services,
    session_id: SessionId,
    fence: Fence,
) -> Result<(), StoreError> {
    let message = "several workers in a row could not read this run or stopped while they did";
    let error = RunError::new(ErrorType::CrashLoop, message);
    let events = [
        NewEvent::new(&EventBody::Error { error: error.clone() }),
        NewEvent::new(&EventBody::StatusIdle {
            stop_reason: StopReason::Error,
            limited: None,
            output_error: None,
        }),
    ];
    let outcome = Outcome {
        stop_reason: StopReason::Error,
        limited: None,
        output_text: String::new(),
        error: Some(error),
        output: None,
    };
    let work = async |conn: &mut _| give_up(conn, session_id, fence, &outcome, &events).await;
    if let Some(frames) = services.pool.with(work).await? {
        services.metrics.run_settled(RunStatus::Failed);
        services.bus.publish(session_id, frames);
    }
    Ok(())
}
