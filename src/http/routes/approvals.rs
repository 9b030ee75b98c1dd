//! Approvals: calls that wait for a decision, and the decisions.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::domain::pending_call::PendingCall;
use crate::domain::permission::Decision;
use crate::domain::run_status::RunStatus;
use crate::domain::streamed::Streamed;
use crate::domain::string_enum::{optional_string_enum, string_enum};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::json_body::JsonBody;
use crate::http::extract::path::{CallPath, SessionPath};
use crate::http::resources::{Page, RunResource};
use crate::http::run_response::{Delivery, PreferWait, ResumedStream, RunResponse};
use crate::http::state::Api;
use crate::service::answers::{
    ApprovalDecision, Remember, decide_approval as decide, pending_approvals,
};
use crate::service::deadline::in_time;
use crate::tools::policy::visible;

/// A call that waits for a decision.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct ApprovalResource {
    /// `approval`.
    r#type: &'static str,
    /// The model's own id of the call.
    tool_use_id: String,
    /// The tool's name.
    name: String,
    /// The input as the model wrote it.
    #[schema(value_type = Object)]
    input: Box<RawValue>,
    /// The input as text for people: invisible characters, and characters that reorder text, are
    /// written as escapes.
    display: String,
    /// The reason why an approval is needed, if the policy gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The change of a file that the call would make, as a unified diff with the same escapes. The
    /// change applies to the file as it is when the call runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
    /// The time at which the call gets its default decision.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    answer_by: Timestamp,
}

impl From<PendingCall> for ApprovalResource {
    fn from(call: PendingCall) -> Self {
        Self {
            r#type: "approval",
            display: visible(call.input.get()).into_owned(),
            reason: call.reason.map(|reason| visible(&reason).into_owned()),
            diff: call.diff.map(|diff| visible(&diff).into_owned()),
            tool_use_id: call.tool_use_id,
            name: call.name,
            input: call.input,
            answer_by: call.answer_by,
        }
    }
}

/// Lists the calls that wait for a decision, in the order of the calls.
#[utoipa::path(
    get, path = "/sessions/{session_id}/approvals", operation_id = "list_approvals", tag = "approvals",
    params(("session_id" = String, Path, description = "The session.")),
    responses(
        (status = 200, description = "All calls that wait for a decision.", body = Page<ApprovalResource>),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn list_approvals(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
) -> Result<Json<Page<ApprovalResource>>, ApiError> {
    let SessionPath(session_id) = path;
    let pending = pending_approvals(&api.service, caller.tenant, session_id).await?;
    Ok(Json(Page::whole(pending.into_iter().map(ApprovalResource::from).collect())))
}

/// A decision on a call.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct DecideCall {
    /// `allow`: the call runs. `deny`: it does not.
    #[serde(deserialize_with = "string_enum")]
    decision: Decision,
    /// The reason of a denial, which the model sees; at most 2000 characters. Only with `deny`.
    #[schema(max_length = 2000)]
    message: Option<String>,
    /// The input that replaces the model's. It must match the tool's schema. Only with `allow`.
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    /// `session`: a rule of the session allows later calls of this tool: with the same command,
    /// file path or URL if the input has one of these, otherwise every call of the tool. Only with
    /// `allow`, and not together with `input`. 422 if no rule can express this, for example because
    /// the command contains `*`.
    #[serde(default, deserialize_with = "optional_string_enum")]
    remember: Option<Remember>,
}

impl From<DecideCall> for ApprovalDecision {
    fn from(body: DecideCall) -> Self {
        let DecideCall { decision, message, input, remember } = body;
        Self { decision, message, input, remember }
    }
}

/// Decides on a call that waits for an approval.
///
/// `Accept: text/event-stream` and `Prefer: wait=N` have the effect that they have on a message: the
/// response is a stream that begins with the event of the decision and ends when the run has settled
/// or waits for the client, or the run once that is so.
///
/// The first decision is final. The same decision again returns the same answer; another one fails
/// with 409. The call runs with exactly the input that was approved: the model's, or the one in the
/// decision.
#[utoipa::path(
    post, path = "/sessions/{session_id}/approvals/{tool_use_id}", operation_id = "decide_approval", tag = "approvals",
    params(("session_id" = String, Path, description = "The session."),
           ("tool_use_id" = String, Path, description = "The model's id of the call."),
           PreferWait, ResumedStream),
    request_body = DecideCall,
    responses(
        (status = 202, description = "The decision is recorded. The run continues when none of its calls waits.", body = RunResource,
         headers(("location" = String, description = "The run's path."),
                 ("preference-applied" = Option<String>, description = "`respond-async` if the request prefers it; `respond-async, wait=N` if the response has waited N seconds for the run."),
                 ("idempotency-replayed" = String, description = "`true` for a repeated decision."))),
        (status = 200, description = "The run, if it settled or waits for the client after a wait, or if the request is repeated and the run has settled; or the stream of its events.",
         content((RunResource = "application/json"), (Streamed<'static> = "text/event-stream"),
                 (Streamed<'static> = "application/jsonl"), (Streamed<'static> = "application/x-ndjson")),
         headers(("location" = Option<String>, description = "The path of the stream."),
                 ("content-location" = String, description = "The run's path."),
                 ("preference-applied" = Option<String>, description = "`wait=N`, if the response has waited."),
                 ("idempotency-replayed" = Option<String>, description = "`true` for a repeated request."))),
        (status = 400, description = "`bad_json`, `body_incomplete`, `invalid_cursor`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `approval_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_resolved`: the call has another decision, or the run has settled. `call_not_waiting`: calls before it are still running.", body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "`approval_expired`: the call has its default decision.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_streams`, `too_many_waits`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn decide_approval(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: CallPath,
    headers: HeaderMap,
    body: JsonBody<DecideCall>,
) -> Result<Response, ApiError> {
    let CallPath(session_id, tool_use_id) = path;
    let JsonBody(body) = body;
    let decision = ApprovalDecision::from(body);
    let tenant = caller.tenant;
    // Before the decision takes effect.
    let delivery = Delivery::of(&api, &caller, &headers)?;
    let subscription = api.service.bus.subscribe(session_id);
    let answered = decide(&api.service, tenant, session_id, &tool_use_id, &decision);
    let answered = in_time(answered).await?;
    let status = answer_status(answered.is_repeated, answered.run.status);
    let response = RunResponse { api: &api, tenant, headers: &headers };
    response.deliver(answered.into(), subscription, delivery, status).await
}

/// The status of the response to an answer. The first answer is accepted with 202, even if its run has
/// settled meanwhile.
pub(super) fn answer_status(is_repeated: bool, run: RunStatus) -> StatusCode {
    if is_repeated && run.is_terminal() { StatusCode::OK } else { StatusCode::ACCEPTED }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_repeated_answer_to_a_settled_run_is_not_accepted() {
        let statuses =
            [RunStatus::Running, RunStatus::Completed, RunStatus::Failed, RunStatus::Cancelled];
        let first = statuses.map(|run| answer_status(false, run).as_u16());
        let again = statuses.map(|run| answer_status(true, run).as_u16());
        assert_eq!((first, again), ([202; 4], [202, 200, 200, 200]));
    }
}
