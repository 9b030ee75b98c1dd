//! A turn of a conversation.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;

use super::body::ChatBody;
use super::encoder::{UiStream, ui_response};
use super::mapper::Mapper;
use super::profile::ProfileQuery;
use super::turn::ChatTurn;
use crate::domain::trace::Trace;
use crate::faults::{self, Point};
use crate::http::adapters::run_stream::stream_run;
use crate::http::adapters::turn::{AppliedTurn, Turn};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::extract::query::Params;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::offload::offload;

/// Takes a request of `useChat` (AI SDK 5, 6 or 7) or assistant-ui, and streams the answer as a UI
/// message stream.
///
/// The first request with an `id` creates the session of the conversation. A new user message starts a
/// run; the same message again follows its run. A user message with a known `id` and other content, and
/// `regenerate-message`, continue in a fork of the session, which takes over the `id`; the session keeps
/// what it has. An assistant message answers waiting calls: parts in the state `approval-responded`, and
/// `output-available` or `output-error` for tools of the client. Nothing else of the messages that a
/// client sends again has an effect. A new message while calls wait cancels the run that waits.
///
/// Closing the connection does not stop the run.
#[utoipa::path(
    post, path = "/ai-sdk/chat", operation_id = "create_chat_turn", tag = "ai_sdk",
    params(ProfileQuery),
    request_body = ChatBody,
    responses(
        (status = 200, description = "The UI message stream, version 1.", body = String, content_type = "text/event-stream",
         headers(("x-vercel-ai-ui-message-stream" = String, description = "`v1`"))),
        (status = 400, description = "`bad_json`, `body_incomplete`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`agent_not_found`, `approval_not_found`, `tool_call_not_found`; `session_not_found` for answers, and for a browser token, with which the session must exist", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_resolved`, `call_not_waiting`, `queue_full`, `session_busy`, `action_required`, `session_archived`", body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "`approval_expired`, `tool_result_expired`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`: another request has replaced the conversation at the same time", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`overloaded`, `rate_limited`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_streams`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_chat_turn(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: Params<ProfileQuery>,
    Extension(trace): Extension<Trace>,
    body: LargeJsonBody<ChatBody>,
) -> Result<Response, ApiError> {
    let Params(query) = query;
    let profile = query.profile()?;
    let LargeJsonBody(body, body_permits) = body;
    let bytes = body_permits.bytes();
    let request = offload(bytes, move || body.parse()).await??;
    if api.draining.is_cancelled() {
        return Err(Error::Draining.into());
    }
    // Before the request takes effect: one that gets no stream must not have started a run.
    let permit = api.stream_permit(&caller)?;
    let turn = ChatTurn(Turn { service: &api.service, caller: &caller, trace, bytes });
    // Boxed, because the future is large.
    let AppliedTurn { followed, subscription, answered, is_continued } =
        Box::pin(turn.apply(request)).await?;
    drop(body_permits);
    faults::point(Point::BeforeReply).await;
    let run = &followed.run;
    let mut mapper = Mapper::new(profile, run.session_id, run.id);
    if is_continued {
        mapper = mapper.after_answers(run, answered);
    }
    let streams = (subscription, permit);
    Ok(ui_response(stream_run(&api, caller.tenant, &followed, streams, UiStream(mapper))))
}
