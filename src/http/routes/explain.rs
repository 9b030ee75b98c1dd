//! An explanation of the state of a run.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;

use crate::domain::explanation::{Facts, OpenCall, RunQueuePosition, WaitsFor};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::permission::Awaits;
use crate::domain::run_status::RunStatus;
use crate::domain::stop_reason::StopReason;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::RunPath;
use crate::http::resources::run_path;
use crate::http::server::forwarded::link;
use crate::http::state::Api;
use crate::service::explanation::explain_run as read_facts;

/// An explanation of the state of a run.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ExplanationResource {
    /// `run_explanation`.
    r#type: &'static str,
    /// The run.
    #[schema(value_type = String)]
    run_id: RunId,
    /// The status of the run.
    status: RunStatus,
    /// The event that the run waits for; null when it has settled.
    #[schema(required)]
    waits_for: Option<WaitsFor>,
    /// The time since which the run waits; for a settled run, the time at which it settled.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    since: Timestamp,
    /// The latest time at which the wait ends by itself, if that is known: the next retry, the
    /// expiry of the lease and the sweep after it, or the deadline of the calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::optional_time")]
    deadline: Option<Timestamp>,
    /// The position in the session's queue, from 1; absent when the run is not queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_position: Option<i64>,
    /// The position in the queue of all sessions; absent when an earlier run of the session goes first
    /// or the run is not queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<RunQueuePosition>,
    /// The run that is executed before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    behind: Option<RunId>,
    /// The tool calls that have not finished.
    calls: Vec<OpenCall>,
    /// The reason why the run settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<StopReason>,
    /// The API request that ends the wait, or the first of several; absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    unblocked_by: Option<Remedy>,
    /// The explanation as a sentence.
    sentence: String,
}

/// An API request.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Remedy {
    /// The method.
    method: &'static str,
    /// The path.
    path: String,
}

impl ExplanationResource {
    fn new(session_id: SessionId, facts: Facts) -> Self {
        let explanation = facts.explain();
        let answer = answer_path(session_id, &facts.calls);
        let cancel = |run_id| format!("{}/cancel", run_path(session_id, run_id));
        let remedy = answer.or_else(|| explanation.cancel.map(cancel));
        Self {
            r#type: "run_explanation",
            run_id: facts.run_id,
            status: facts.status,
            waits_for: explanation.waits_for,
            since: explanation.since,
            deadline: explanation.deadline,
            queue_position: facts.queue_position,
            queue: facts.queue,
            behind: facts.behind,
            calls: facts.calls,
            stop_reason: facts.outcome.map(|outcome| outcome.stop_reason),
            unblocked_by: remedy.map(|path| Remedy { method: "POST", path }),
            sentence: explanation.sentence,
        }
    }
}

/// The path at which the first waiting call is answered.
fn answer_path(session_id: SessionId, calls: &[OpenCall]) -> Option<String> {
    let waiting = |who| calls.iter().find(move |call| call.awaits == Some(who));
    if let Some(call) = waiting(Awaits::Approval) {
        return Some(link(format_args!("/sessions/{session_id}/approvals/{}", call.tool_use_id)));
    }
    let results = || link(format_args!("/sessions/{session_id}/tool_results"));
    waiting(Awaits::Client).map(|_| results())
}

/// Explains what a run waits for, since when, and which request would end the wait.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs/{run_id}/explain", operation_id = "explain_run", tag = "runs",
    params(("session_id" = String, Path, description = "The session."),
           ("run_id" = String, Path, description = "The run.")),
    responses(
        (status = 200, description = "The explanation, at the time of the request.", body = ExplanationResource),
        (status = 404, description = "`session_not_found`, `run_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn explain_run(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: RunPath,
) -> Result<Json<ExplanationResource>, ApiError> {
    let RunPath(session_id, run_id) = path;
    let facts = read_facts(&api.service, caller.tenant, session_id, run_id).await?;
    Ok(Json(ExplanationResource::new(session_id, facts)))
}
