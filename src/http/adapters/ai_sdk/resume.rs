//! Reading a running answer again from its beginning.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;

use super::encoder::{UiStream, ui_response};
use super::mapper::Mapper;
use super::profile::ProfileQuery;
use crate::http::adapters::run_stream::stream_run;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::ChatPath;
use crate::http::extract::query::Params;
use crate::http::run_response::FollowedRun;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::lookup::find_current_run;
use crate::service::messages::PostedRun;
use crate::service::sessions::find_by_client_id;

/// Streams the answer that is being written, from its beginning. `useChat` calls this as
/// `resumeStream`.
///
/// 204 if no run is active or queued, or if the active run waits for the client.
#[utoipa::path(
    get, path = "/ai-sdk/chat/{chat_id}/stream", operation_id = "resume_chat", tag = "ai_sdk",
    params(("chat_id" = String, Path, description = "The id of the conversation."), ProfileQuery),
    responses(
        (status = 200, description = "The UI message stream.", body = String, content_type = "text/event-stream",
         headers(("x-vercel-ai-ui-message-stream" = String, description = "`v1`"))),
        (status = 204, description = "Nothing is running."),
        (status = 400, description = "`invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, with a browser token", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`too_many_streams`, `draining`, `database_unavailable`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn resume_chat(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: ChatPath,
    query: Params<ProfileQuery>,
) -> Result<Response, ApiError> {
    let (ChatPath(chat_id), Params(query)) = (path, query);
    let (service, tenant, profile) = (&api.service, caller.tenant, query.profile()?);
    let session = match find_by_client_id(service, tenant, &chat_id).await {
        // A conversation without a message yet: pages ask before they send the first one.
        Err(Error::SessionNotFound(_)) => return Ok(StatusCode::NO_CONTENT.into_response()),
        found => found?,
    };
    // Before the run is read: later events must not be missed.
    let subscription = service.bus.subscribe(session.id);
    let run = find_current_run(service, tenant, session.id).await?;
    let Some(run) = run.filter(|run| !run.is_idle()) else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let permit = api.stream_permit(&caller)?;
    let encoder = UiStream(Mapper::new(profile, session.id, run.id));
    let followed = FollowedRun::from(PostedRun { run, is_repeated: true });
    Ok(ui_response(stream_run(&api, tenant, &followed, (subscription, permit), encoder)))
}
