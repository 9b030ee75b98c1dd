//! Cancelling a response.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::HeaderMap;

use super::find::{FoundResponse, find_response};
use super::resource::OpenAiResponse;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, OpenAiError};
use crate::http::extract::path::SdkPath;
use crate::http::run_response::RunResponse;
use crate::http::state::Api;
use crate::service::cancel::cancel_run;

/// The maximum time that the response waits until the run has settled, in seconds.
const MAX_WAIT: u64 = 10;

/// Cancels a response that is queued or in progress. Another one stays as it is.
///
/// The reply is sent when the run has settled, after at most 10 seconds.
#[utoipa::path(
    post, path = "/openai/v1/responses/{response_id}/cancel", operation_id = "cancel_openai_response", tag = "openai",
    params(("response_id" = String, Path, description = "The response.")),
    responses(
        (status = 200, description = "The response.", body = OpenAiResponse),
        (status = 400, description = "`invalid_query`", body = OpenAiError),
        (status = 404, description = "`run_not_found`: the response does not exist", body = OpenAiError),
        (status = 503, description = "`draining`, `database_unavailable`", body = OpenAiError),
    )
)]
pub(in crate::http) async fn cancel_openai_response(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SdkPath,
    headers: HeaderMap,
) -> Result<Json<OpenAiResponse>, ApiError> {
    let SdkPath(id) = path;
    let (service, tenant) = (&api.service, caller.tenant);
    let found = find_response(service, tenant, &id).await?;
    let response = found.read(service, tenant).await?;
    if response.status().is_ended() {
        return Ok(Json(response));
    }
    let FoundResponse { run, after } = found;
    let permit = api.wait_permit(&caller).ok();
    // Before the run stops: the event that ends the wait must not be missed.
    let subscription = service.bus.subscribe(run.session_id);
    let mut run = cancel_run(service, tenant, run.session_id, run.id).await?.run;
    if permit.is_some() && !run.status.is_terminal() {
        let response = RunResponse { api: &api, tenant, headers: &headers };
        run = response.wait(run, subscription, MAX_WAIT).await?.run;
    }
    Ok(Json(FoundResponse { run, after }.read(service, tenant).await?))
}
