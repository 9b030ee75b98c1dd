//! Why a run stands where it stands.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;

use crate::domain::explanation::{Facts, OpenCall, WaitsFor, after};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::permission::Awaits;
use crate::domain::run::{RunStatus, StopReason};
use crate::domain::tool::{CallState, ToolClass};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::RunPath;
use crate::http::resources::run_path;
use crate::http::server::forwarded::link;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::lookup::newest_event;
use crate::store::explain::find;
use crate::tools::Registry;

/// Why a run stands where it stands.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ExplanationResource {
    /// `run_explanation`.
    r#type: &'static str,
    /// The run.
    #[schema(value_type = String)]
    run_id: RunId,
    /// Where it stands.
    status: RunStatus,
    /// What it waits for; null when it has settled.
    #[schema(required)]
    waits_for: Option<WaitsFor>,
    /// Since when it waits; for a settled run, when it settled.
    #[schema(value_type = String, format = DateTime)]
    since: Timestamp,
    /// When the wait ends by itself at the latest, if that is known: the retry, the end of the
    /// lease with the sweep after it, the deadline of the calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    deadline: Option<Timestamp>,
    /// Its place in the session's queue, from 1; absent when it does not wait there.
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_position: Option<i64>,
    /// The run that goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    behind: Option<RunId>,
    /// Tool calls that have not ended.
    calls: Vec<OpenCall>,
    /// Why it settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<StopReason>,
    /// The call of this API that ends the wait, or the first of several that do; absent when there
    /// is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    unblocked_by: Option<Remedy>,
    /// All of it for people.
    sentence: String,
}

/// A call of this API.
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
        let answer = answer(session_id, &facts.calls);
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
            behind: facts.behind,
            calls: facts.calls,
            stop_reason: facts.outcome.map(|outcome| outcome.stop_reason),
            unblocked_by: remedy.map(|path| Remedy { method: "POST", path }),
            sentence: explanation.sentence,
        }
    }
}

/// Where the first call is answered that waits for somebody.
fn answer(session_id: SessionId, calls: &[OpenCall]) -> Option<String> {
    let waiting = |who| calls.iter().find(move |call| call.awaits == Some(who));
    if let Some(call) = waiting(Awaits::Approval) {
        return Some(link(format_args!("/sessions/{session_id}/approvals/{}", call.tool_use_id)));
    }
    let results = || link(format_args!("/sessions/{session_id}/tool_results"));
    waiting(Awaits::Client).map(|_| results())
}

/// Adds what only the catalogue knows.
fn look_up(tools: &Registry, call: &mut OpenCall) {
    // A sub-agent may take as long as its own limits let it.
    if call.state == CallState::Started && tools.class(&call.name) != ToolClass::Child {
        let timing = tools.timing(&call.name);
        call.deadline = timing.and_then(|timing| after(call.since, timing.deadline()));
    }
}

/// Explains what a run waits for, since when, and what would end the wait.
#[utoipa::path(
    get, path = "/sessions/{session_id}/runs/{run_id}/explain", operation_id = "explain_run", tag = "runs",
    params(("session_id" = String, Path, description = "The session."),
           ("run_id" = String, Path, description = "The run.")),
    responses(
        (status = 200, description = "The explanation, as of this moment.", body = ExplanationResource),
        (status = 404, description = "`session_not_found`, `run_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn explain_run(
    State(api): State<Api>,
    caller: Caller,
    path: RunPath,
) -> Result<Json<ExplanationResource>, ApiError> {
    let RunPath(session_id, run_id) = path;
    let mut conn = api.pool.acquire_as(caller.tenant).await?;
    let facts = find(&mut conn, caller.tenant, session_id, run_id).await?;
    conn.give_back();
    let Some(mut facts) = facts else {
        newest_event(&api.service, caller.tenant, session_id).await?;
        return Err(ApiError::Service(Error::RunNotFound(run_id.to_string())));
    };
    for call in &mut facts.calls {
        look_up(&api.tools, call);
    }
    Ok(Json(ExplanationResource::new(session_id, facts)))
}
