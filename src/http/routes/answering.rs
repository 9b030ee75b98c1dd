//! What approvals and tool results have in common: they answer calls that wait.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use sqlx::{PgConnection, Postgres, Transaction};

use super::runs::known_run;
use crate::domain::event::{Frame, NewEvent};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::run::RunStatus;
use crate::faults::{self, Point};
use crate::http::error::ApiError;
use crate::http::extract::idempotency::mark_repeated;
use crate::http::resources::RunResource;
use crate::http::state::Api;
use crate::store::decisions::{LockedCall, plan_wake};
use crate::store::events::append;

/// What became of an answer.
#[derive(Debug)]
pub(super) struct Met {
    run_id: RunId,
    frames: Vec<Frame>,
    /// Whether nobody is waited for any more.
    goes_on: bool,
    is_repeated: bool,
}

impl Met {
    /// The same answer was given before; nothing is changed.
    pub(super) fn repeated(run_id: RunId) -> Self {
        Self { run_id, frames: Vec::new(), goes_on: false, is_repeated: true }
    }

    /// The answers have been recorded: the events that tell of them, and the run's waking.
    pub(super) async fn recorded(
        conn: &mut PgConnection,
        call: &LockedCall,
        events: &[NewEvent],
    ) -> Result<Self, ApiError> {
        let frames = append(conn, call.session_id, Some(call.run_id), events).await?;
        let goes_on = plan_wake(conn, call).await?;
        Ok(Self { run_id: call.run_id, frames, goes_on, is_repeated: false })
    }

    /// Tells readers and workers. The run, and whether the answer was there before. Called after the
    /// commit.
    pub(super) async fn announce(self, api: &Api, session_id: SessionId) -> (RunId, bool) {
        if self.goes_on {
            faults::point(Point::Decided).await;
        }
        api.bus.publish(session_id, self.frames);
        if self.goes_on {
            api.bus.announce_work();
        }
        (self.run_id, self.is_repeated)
    }

    /// Tells readers and workers, and answers with the run. Called after the commit.
    pub(super) async fn respond(
        self,
        api: &Api,
        tenant: TenantId,
        session_id: SessionId,
    ) -> Result<Response, ApiError> {
        let (run_id, is_repeated) = self.announce(api, session_id).await;
        let run = known_run(api, tenant, session_id, run_id).await?;
        let status = status(is_repeated, run.status);
        let mut response = (status, Json(RunResource::from(run))).into_response();
        mark_repeated(&mut response, is_repeated);
        Ok(response)
    }
}

/// A first answer is accepted, however fast its run has settled.
fn status(is_repeated: bool, run: RunStatus) -> StatusCode {
    if is_repeated && run.is_terminal() { StatusCode::OK } else { StatusCode::ACCEPTED }
}

/// Ends a transaction: what was refused changes nothing, and the connection is as good as before.
/// The outer error is the database's.
pub(super) async fn end<T>(
    transaction: Transaction<'_, Postgres>,
    met: Result<T, ApiError>,
) -> Result<Result<T, ApiError>, ApiError> {
    match met {
        Ok(met) => {
            transaction.commit().await?;
            Ok(Ok(met))
        }
        Err(error @ ApiError::Store(_)) => Err(error),
        Err(refusal) => {
            transaction.rollback().await?;
            Ok(Err(refusal))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_repeated_answer_to_a_settled_run_is_not_accepted() {
        let statuses =
            [RunStatus::Running, RunStatus::Completed, RunStatus::Failed, RunStatus::Cancelled];
        let first = statuses.map(|run| status(false, run).as_u16());
        let again = statuses.map(|run| status(true, run).as_u16());
        assert_eq!((first, again), ([202; 4], [202, 200, 200, 200]));
    }
}
