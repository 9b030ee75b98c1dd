//! Creating responses.

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::HeaderMap;

use super::body::ResponseBody;
use super::document::ResponseCollector;
use super::mapper::ResponseMapper;
use super::resource::OpenAiResponse;
use super::stream::ResponseStream;
use super::turn::ResponseTurn;
use crate::domain::trace::Trace;
use crate::faults::{self, Point};
use crate::http::adapters::disconnect::OnDisconnect;
use crate::http::adapters::openai::answer_slot::AnswerSlot;
use crate::http::adapters::openai::completions::CompletionQuery;
use crate::http::adapters::openai::delivery::{AnswerDelivery, name_session};
use crate::http::adapters::openai::turn::CompletionTurn;
use crate::http::adapters::turn::Turn;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, OpenAiError};
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::extract::query::Params;
use crate::http::state::Api;
use crate::http::stream::format::StreamFormat;
use crate::http::stream::response::streamed;
use crate::service::Error;
use crate::service::offload::offload;

/// Takes a request of an OpenAI client, and returns the answer of the agent as a response.
///
/// `previous_response_id` and `conversation` continue a session; without them it is found as for chat
/// completions. Only new items of `input` have an effect. The agent's tools run in the service, as items
/// of the type `mcp_call`; tools of the request run in the client, as `function_call`.
///
/// A closed connection cancels the run, unless `background` is true.
#[utoipa::path(
    post, path = "/openai/v1/responses", operation_id = "create_openai_response", tag = "openai",
    params(CompletionQuery),
    request_body = ResponseBody,
    responses(
        (status = 200, description = "The response, or the stream of its events.",
         content((OpenAiResponse = "application/json"), (String = "text/event-stream")),
         headers(("x-session-id" = String, description = "The id of the session."))),
        (status = 400, description = "`bad_json`, `body_incomplete`, `invalid_query`", body = OpenAiError),
        (status = 404, description = "`run_not_found`: the previous response does not exist; `model_not_found`, `session_not_found`, `tool_call_not_found`, `approval_not_found`", body = OpenAiError),
        (status = 408, description = "`request_timeout`", body = OpenAiError),
        (status = 409, description = "`already_resolved`, `call_not_waiting`, `queue_full`, `session_busy`, `action_required`, `session_archived`, `external_id_taken`", body = OpenAiError),
        (status = 410, description = "`tool_result_expired`, `approval_expired`", body = OpenAiError),
        (status = 412, description = "`version_mismatch`: another request has replaced the conversation at the same time", body = OpenAiError),
        (status = 413, description = "`body_too_large`", body = OpenAiError),
        (status = 415, description = "`unsupported_media_type`", body = OpenAiError),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`", body = OpenAiError),
        (status = 429, description = "`overloaded`, `rate_limited`", body = OpenAiError),
        (status = 502, description = "`run_failed`: the run failed. Not to be repeated.", body = OpenAiError),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_streams`, `too_many_large_bodies`", body = OpenAiError),
        (status = 507, description = "`storage_quota_exceeded`", body = OpenAiError),
    )
)]
pub(in crate::http) async fn create_openai_response(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: Params<CompletionQuery>,
    headers: HeaderMap,
    Extension(trace): Extension<Trace>,
    body: LargeJsonBody<ResponseBody>,
) -> Result<Response, ApiError> {
    let Params(CompletionQuery { on_disconnect }) = query;
    let LargeJsonBody(mut body, body_permits) = body;
    let bytes = body_permits.bytes();
    let (body, request) =
        offload(bytes, move || body.parse().map(|request| (body, request))).await??;
    if api.draining.is_cancelled() {
        return Err(Error::Draining.into());
    }
    // Before the request takes effect: one that gets no stream must not have started a run.
    let permit = api.stream_permit(&caller)?;
    let name = body.conversation_name(&headers);
    let turn = Turn { service: &api.service, caller: &caller, trace, bytes };
    let (model, user) = (body.model(), body.user.as_deref());
    let turn = ResponseTurn(CompletionTurn { turn, name, model, user });
    // Boxed, because the future is large.
    let mut applied = Box::pin(turn.apply(request)).await?;
    drop(body_permits);
    faults::point(Point::BeforeReply).await;
    let run = &applied.followed.run;
    let (session_id, after) = (run.session_id, applied.followed.after);
    let response = OpenAiResponse::of_request(&body, run, after);
    let mapper = ResponseMapper::new(after);
    let is_background = body.background == Some(true);
    let goes_on = is_background || on_disconnect == OnDisconnect::Continue;
    let delivery = AnswerDelivery { api: &api, tenant: caller.tenant, goes_on };
    let mut response = if body.stream == Some(true) {
        // From the first event of the run: the mapping needs the calls that were answered.
        applied.followed.after = run.accepted_seq - 1;
        let stream = delivery.stream(applied, permit, ResponseStream::new(mapper, response, 0));
        streamed(stream, StreamFormat::EventStream)
    } else if is_background {
        Json(response.so_far(&mapper, run)).into_response()
    } else {
        applied.followed.after = run.accepted_seq - 1;
        let slot = AnswerSlot::new();
        let collector = ResponseCollector { mapper, response, slot: slot.clone() };
        delivery.document(applied, permit, collector, slot).await?
    };
    name_session(&mut response, session_id);
    Ok(response)
}
