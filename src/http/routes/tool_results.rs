//! Results of calls that the client runs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::approvals::answer_status;
use crate::domain::streamed::Streamed;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::extract::path::SessionPath;
use crate::http::resources::RunResource;
use crate::http::run_response::{Delivery, PreferWait, ResumedStream, RunResponse};
use crate::http::state::Api;
use crate::service::Error;
use crate::service::answers::{ParsedResult, ToolResultInput, add_tool_results, parse_results};
use crate::service::content::InputContent;
use crate::service::deadline::in_time;
use crate::service::json::objects;
use crate::service::offload::offload;

/// The largest number of results of one request.
const MAX_RESULTS: usize = 128;

/// Results of calls that the client ran.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CreateToolResults {
    /// The results, 1 to 128. Either all of them are recorded, or none.
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1, max_items = 128)]
    results: Vec<ToolResult>,
}

/// The result of one call.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct ToolResult {
    /// The model's own id of the call.
    tool_use_id: String,
    /// A text, or up to 100 blocks; at most 100 KiB of text. NUL and lone surrogates are replaced by
    /// U+FFFD.
    #[schema(value_type = Option<InputContent>)]
    content: Option<Box<RawValue>>,
    /// True if the call failed.
    #[serde(default)]
    is_error: bool,
}

impl CreateToolResults {
    fn parse(self) -> Result<Vec<ParsedResult>, Error> {
        if !(1..=MAX_RESULTS).contains(&self.results.len()) {
            return Err(Error::field("/results", format!("is not 1 to {MAX_RESULTS} results")));
        }
        let input = |(index, result)| {
            let ToolResult { tool_use_id, content, is_error } = result;
            let pointer = format!("/results/{index}");
            ToolResultInput { pointer, tool_use_id, content, is_error }
        };
        parse_results(self.results.into_iter().enumerate().map(input).collect(), "tool_use_id")
    }
}

/// Records results of calls that the client runs, one call or several at once.
///
/// `Accept: text/event-stream` and `Prefer: wait=N` have the effect that they have on a message: the
/// response is a stream that begins with the events of the results and ends when the run has settled
/// or waits for the client, or the run once that is so.
///
/// The first result of a call is final. The same result again returns the same answer; another one
/// fails with 409.
#[utoipa::path(
    post, path = "/sessions/{session_id}/tool_results", operation_id = "create_tool_results", tag = "approvals",
    params(("session_id" = String, Path, description = "The session."), PreferWait, ResumedStream),
    request_body = CreateToolResults,
    responses(
        (status = 202, description = "The results are recorded. The run continues when none of its calls waits.", body = RunResource,
         headers(("location" = String, description = "The run's path."),
                 ("preference-applied" = Option<String>, description = "`respond-async` if the request prefers it; `respond-async, wait=N` if the response has waited N seconds for the run."),
                 ("idempotency-replayed" = String, description = "`true` if all of them were recorded before."))),
        (status = 200, description = "The run, if it settled or waits for the client after a wait, or if the request is repeated and the run has settled; or the stream of its events.",
         content((RunResource = "application/json"), (Streamed<'static> = "text/event-stream"),
                 (Streamed<'static> = "application/jsonl"), (Streamed<'static> = "application/x-ndjson")),
         headers(("location" = Option<String>, description = "The path of the stream."),
                 ("content-location" = String, description = "The run's path."),
                 ("preference-applied" = Option<String>, description = "`wait=N`, if the response has waited."),
                 ("idempotency-replayed" = Option<String>, description = "`true` for a repeated request."))),
        (status = 400, description = "`bad_json`, `body_incomplete`, `invalid_cursor`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `tool_call_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_resolved`: the call has another result, or the run has settled. `call_not_waiting`: calls before it are still running.", body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "`tool_result_expired`: the call has its default result.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_streams`, `too_many_waits`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_tool_results(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
    headers: HeaderMap,
    body: LargeJsonBody<CreateToolResults>,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let LargeJsonBody(body, body_permits) = body;
    let results = offload(body_permits.bytes(), move || body.parse()).await??;
    // Before the results take effect.
    let delivery = Delivery::of(&api, &caller, &headers)?;
    let subscription = api.service.bus.subscribe(session_id);
    let answered = add_tool_results(&api.service, caller.tenant, session_id, &results);
    let answered = in_time(answered).await;
    drop(body_permits);
    let answered = answered?;
    let status = answer_status(answered.is_repeated, answered.run.status);
    let response = RunResponse { api: &api, tenant: caller.tenant, headers: &headers };
    response.deliver(answered.into(), subscription, delivery, status).await
}
