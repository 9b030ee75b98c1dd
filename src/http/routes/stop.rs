//! Asking a run to stop: by a cancel, or by a message that interrupts.

use sqlx::PgConnection;

use crate::domain::event::Frame;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::run::RunStatus;
use crate::http::error::ApiError;
use crate::http::state::Api;
use crate::store::runs::Cancellation;
use crate::store::stopping::request_stop;

/// A run that was asked to stop, in a transaction that is still to be committed.
#[derive(Debug)]
pub(super) struct Stop {
    session_id: SessionId,
    run_id: RunId,
    met: Option<Cancellation>,
    frames: Vec<Frame>,
}

impl Stop {
    /// Asks a run to stop; one that has not begun is settled. The run and its session stay locked
    /// for the rest of the caller's transaction.
    pub(super) async fn request(
        conn: &mut PgConnection,
        tenant: TenantId,
        session_id: SessionId,
        run_id: RunId,
    ) -> Result<Self, ApiError> {
        let (met, frames) = request_stop(conn, tenant, session_id, run_id).await?;
        Ok(Self { session_id, run_id, met, frames })
    }

    /// The run.
    pub(super) fn run_id(&self) -> RunId {
        self.run_id
    }

    /// Whether the run does nothing any more, in the transaction that it was asked in.
    pub(super) fn is_settled(&self) -> bool {
        match self.met {
            None | Some(Cancellation::Queued | Cancellation::Settled) => true,
            Some(Cancellation::Requested | Cancellation::Unheld | Cancellation::Repeated) => false,
        }
    }

    /// Tells readers, and the worker that has to do something about it. Called after the commit.
    pub(super) fn announce(self, api: &Api) {
        api.bus.publish(self.session_id, self.frames);
        match self.met {
            Some(Cancellation::Requested | Cancellation::Repeated) => api.bus.cancel(self.run_id),
            Some(Cancellation::Unheld) => api.bus.announce_work(),
            Some(Cancellation::Queued) => api.metrics.run_settled(RunStatus::Cancelled),
            Some(Cancellation::Settled) | None => {}
        }
    }
}
