//! Runs that are past being settled in order.

use crate::domain::claim::Fence;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::SessionId;
use crate::domain::run::{ErrorType, Outcome, RunError, RunStatus, StopReason};
use crate::store::StoreError;
use crate::store::claim::MAX_TAKEOVERS;
use crate::store::give_up::give_up;
use crate::worker::Worker;
use crate::worker::run::database_retry::in_time;

/// Takeovers after which not even an orderly end is tried any more: whoever read the run to settle
/// it has died of that as well.
pub(in crate::worker) const HOPELESS_AFTER: i32 = 2 * MAX_TAKEOVERS;

impl Worker {
    /// Ends a run by its row alone.
    pub(in crate::worker) async fn give_up(&self, session_id: SessionId, fence: Fence) {
        tracing::error!(run.id = %fence.run_id, "a run is given up unread: see the log of before");
        match in_time(self.try_give_up(session_id, fence)).await {
            Ok(()) => {}
            Err(error) => tracing::warn!(run.id = %fence.run_id, %error, "it could not be ended"),
        }
    }

    async fn try_give_up(&self, session_id: SessionId, fence: Fence) -> Result<(), StoreError> {
        let message = "worker after worker could not read this run, or died of it".to_owned();
        let error = RunError { r#type: ErrorType::CrashLoop, message };
        let stop_reason = StopReason::RetriesExhausted;
        let events = [
            NewEvent::new(&EventBody::Error { error: error.clone() }),
            NewEvent::new(&EventBody::StatusIdle {
                stop_reason,
                limited: None,
                output_error: None,
            }),
        ];
        let outcome = Outcome {
            stop_reason: StopReason::RetriesExhausted,
            limited: None,
            output_text: String::new(),
            error: Some(error),
            output: None,
        };
        let mut conn = self.parts.pool.acquire().await?;
        let frames = give_up(&mut conn, session_id, fence, &outcome, &events).await?;
        conn.give_back();
        if let Some(frames) = frames {
            self.parts.metrics.run_settled(RunStatus::Failed);
            self.parts.bus.publish(session_id, frames);
        }
        Ok(())
    }
}
