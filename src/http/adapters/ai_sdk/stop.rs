//! Stopping an answer.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::HeaderMap;
use serde::{Deserialize, Serialize};

use super::ids::run_of;
use crate::domain::ids::{SessionId, TenantId};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::json_body::OptionalJsonBody;
use crate::http::extract::path::ChatPath;
use crate::http::run_response::RunResponse;
use crate::http::state::Api;
use crate::service::cancel::{StoppedRun, cancel_run, cancel_session};
use crate::service::sessions::find_by_client_id;
use crate::service::{Error, Service};

/// The maximum time that the response waits until the run has settled, in seconds.
const MAX_WAIT: u64 = 10;

/// The body of a request to stop. Other members, such as `assistantMessage`, are ignored: the service
/// has the answer itself.
#[derive(Debug, Default, Deserialize, utoipa::ToSchema)]
#[serde(default, rename_all = "camelCase")]
pub(in crate::http) struct StopChat {
    /// The id of the assistant message to stop. A run of another message is not stopped. When absent,
    /// every active and queued run of the conversation is stopped.
    active_stream_id: Option<String>,
}

/// The result of a request to stop.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct StoppedChat {
    /// `true`.
    success: bool,
}

/// Stops the answer that is being written. A call of `stop()` in the browser only closes its stream.
///
/// The response is sent when the run has settled, after at most 10 seconds, so that a page which then
/// resumes the stream gets 204.
#[utoipa::path(
    post, path = "/ai-sdk/chat/{chat_id}/stop", operation_id = "stop_chat", tag = "ai_sdk",
    params(("chat_id" = String, Path, description = "The id of the conversation.")),
    request_body = Option<StopChat>,
    responses(
        (status = 200, description = "The runs are stopped.", body = StoppedChat),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn stop_chat(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: ChatPath,
    headers: HeaderMap,
    body: OptionalJsonBody<StopChat>,
) -> Result<Json<StoppedChat>, ApiError> {
    let ChatPath(chat_id) = path;
    let OptionalJsonBody(StopChat { active_stream_id }) = body;
    let (service, tenant) = (&api.service, caller.tenant);
    let session = find_by_client_id(service, tenant, &chat_id).await?;
    let permit = api.wait_permit(&caller).ok();
    // Before the runs stop: the event that ends the wait must not be missed.
    let subscription = service.bus.subscribe(session.id);
    let stopped = match active_stream_id {
        None => cancel_session(service, tenant, session.id).await?,
        Some(id) => stop_one(service, tenant, session.id, &id).await?,
    };
    // Queued runs are settled already.
    let active = stopped.into_iter().map(|it| it.run).find(|run| !run.status.is_terminal());
    if let (Some(run), Some(_permit)) = (active, permit) {
        let response = RunResponse { api: &api, tenant, headers: &headers };
        response.wait(run, subscription, MAX_WAIT).await?;
    }
    Ok(Json(StoppedChat { success: true }))
}

/// Stops the run of one assistant message, if it is a run of the session.
async fn stop_one(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
    message_id: &str,
) -> Result<Vec<StoppedRun>, ApiError> {
    let Some(run_id) = run_of(message_id) else { return Ok(Vec::new()) };
    match cancel_run(service, tenant, session_id, run_id).await {
        Err(Error::RunNotFound(_)) => Ok(Vec::new()),
        stopped => Ok(vec![stopped?]),
    }
}
