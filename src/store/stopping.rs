//! Cancellation of runs.

use sqlx::PgConnection;

use super::StoreError;
use super::events::append;
use super::runs::{Cancellation, cancel_queued, request_cancel};
use crate::domain::call_end::RunEnd;
use crate::domain::event::{EventBody, Frame, NewEvent};
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::domain::outcome::Outcome;

/// Requests the cancellation of a run; a run that has not started is settled. The run and its
/// session stay locked until the end of the caller's transaction. Returns the state of the run at
/// the request, and the events.
pub async fn request_stop(
    conn: &mut PgConnection,
    tenant: TenantId,
    session_id: SessionId,
    run_id: RunId,
    by: RunEnd,
) -> Result<(Option<Cancellation>, Vec<Frame>), StoreError> {
    let cancellation = request_cancel(conn, tenant, session_id, run_id, by).await?;
    let interrupt = NewEvent::new(&EventBody::UserInterrupt {});
    let frames = match cancellation {
        None | Some(Cancellation::Settled | Cancellation::Repeated) => Vec::new(),
        Some(Cancellation::Requested | Cancellation::Unclaimed) => {
            append(conn, session_id, Some(run_id), &[interrupt]).await?
        }
        Some(Cancellation::Queued) => {
            let outcome = Outcome::cancelled();
            cancel_queued(conn, run_id, &outcome).await?;
            let stop_reason = outcome.stop_reason;
            let (limited, output_error) = (None, None);
            let body = EventBody::StatusIdle { stop_reason, limited, output_error };
            let idle = NewEvent::new(&body);
            append(conn, session_id, Some(run_id), &[interrupt, idle]).await?
        }
    };
    Ok((cancellation, frames))
}

/// Finds the cause of a run's cancellation.
pub async fn find_canceller(conn: &mut PgConnection, run_id: RunId) -> Result<RunEnd, StoreError> {
    let by = sqlx::query_scalar!("SELECT cancelled_by FROM runs WHERE id = $1", run_id.as_uuid())
        .fetch_optional(conn)
        .await?;
    Ok(by.flatten().as_deref().and_then(RunEnd::parse).unwrap_or(RunEnd::Client))
}
