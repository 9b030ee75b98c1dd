//! Chat completions.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use serde::Deserialize;

use super::answer_slot::AnswerSlot;
use super::body::{ChatCompletionBody, CompletionAction};
use super::complete::CompletionCollector;
use super::completion::{ChatCompletion, CompletionHead};
use super::conversation::ConversationName;
use super::delivery::{AnswerDelivery, name_session};
use super::mapper::Mapper;
use super::stream::CompletionStream;
use super::turn::CompletionTurn;
use crate::domain::ids::SessionId;
use crate::domain::trace::Trace;
use crate::faults::{self, Point};
use crate::http::adapters::disconnect::OnDisconnect;
use crate::http::adapters::turn::{AppliedTurn, Turn};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, OpenAiError};
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::extract::query::Params;
use crate::http::server::stream_permits::StreamPermit;
use crate::http::state::Api;
use crate::http::stream::format::StreamFormat;
use crate::http::stream::response::streamed;
use crate::service::Error;
use crate::service::offload::offload;
use crate::service::sessions::{DeleteSession, delete_session};

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct CompletionQuery {
    /// What a closed connection means: `cancel`, the default, cancels the run; with `continue` it goes
    /// on.
    #[serde(default)]
    #[param(inline)]
    pub(super) on_disconnect: OnDisconnect,
}

/// Takes a request of an OpenAI client, and returns the answer of the agent as a chat completion.
///
/// The session is the one that `X-Session-Id`, `X-OpenWebUI-Chat-Id`, `X-Conversation-Id` or
/// `metadata.session_id` names; without a name, the one whose transcript the client sends again. The
/// service has the conversation itself: only the last user message and the results after it have an
/// effect. The agent's tools run in the service; tools of the request run in the client, as `tool_calls`.
///
/// A closed connection cancels the run.
#[utoipa::path(
    post, path = "/openai/v1/chat/completions", operation_id = "create_chat_completion", tag = "openai",
    params(CompletionQuery),
    request_body = ChatCompletionBody,
    responses(
        (status = 200, description = "The completion, or the stream of its chunks.",
         content((ChatCompletion = "application/json"), (String = "text/event-stream")),
         headers(("x-session-id" = String, description = "The id of the session."))),
        (status = 400, description = "`bad_json`, `body_incomplete`, `invalid_query`", body = OpenAiError),
        (status = 404, description = "`model_not_found`, `session_not_found`, `tool_call_not_found`", body = OpenAiError),
        (status = 408, description = "`request_timeout`", body = OpenAiError),
        (status = 409, description = "`already_resolved`, `call_not_waiting`, `queue_full`, `session_busy`, `action_required`, `session_archived`, `external_id_taken`", body = OpenAiError),
        (status = 410, description = "`tool_result_expired`", body = OpenAiError),
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
pub(in crate::http) async fn create_chat_completion(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: Params<CompletionQuery>,
    headers: HeaderMap,
    Extension(trace): Extension<Trace>,
    body: LargeJsonBody<ChatCompletionBody>,
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
    let is_aside = matches!(request.action, CompletionAction::Side(_));
    let name = ConversationName::of(&headers, body.metadata.as_ref());
    let turn = Turn { service: &api.service, caller: &caller, trace, bytes };
    let (model, user) = (&*body.model, body.user.as_deref());
    let completion_turn = CompletionTurn { turn, name, model, user };
    // Boxed, because the future is large.
    let applied = Box::pin(completion_turn.apply(request)).await?;
    drop(body_permits);
    faults::point(Point::BeforeReply).await;
    let session_id = applied.followed.run.session_id;
    let goes_on = on_disconnect == OnDisconnect::Continue && !is_aside;
    let delivery = AnswerDelivery { api: &api, tenant: caller.tenant, goes_on };
    let delivery = CompletionDelivery(delivery);
    let mut response = if is_aside {
        delivery.aside(&body, applied, permit).await?
    } else if body.stream == Some(true) {
        delivery.stream(&body, applied, permit)
    } else {
        delivery.document(&body, applied, permit).await?
    };
    if !is_aside {
        name_session(&mut response, session_id);
    }
    Ok(response)
}

/// The delivery of a completion.
struct CompletionDelivery<'a>(AnswerDelivery<'a>);

impl CompletionDelivery<'_> {
    /// A stream of chunks.
    fn stream(
        &self,
        body: &ChatCompletionBody,
        applied: AppliedTurn,
        permit: StreamPermit,
    ) -> Response {
        let run = &applied.followed.run;
        let head = CompletionHead::of(run, body.model.clone());
        let mapper = Mapper::new(run.session_id);
        let encoder = CompletionStream::new(mapper, head, body.includes_usage());
        streamed(self.0.stream(applied, permit, encoder), StreamFormat::EventStream)
    }

    /// A document, when the run has settled or waits for the client.
    async fn document(
        &self,
        body: &ChatCompletionBody,
        applied: AppliedTurn,
        permit: StreamPermit,
    ) -> Result<Response, ApiError> {
        let run = &applied.followed.run;
        let head = CompletionHead::of(run, body.model.clone());
        let slot = AnswerSlot::new();
        let encoder = CompletionCollector::new(Mapper::new(run.session_id), head, slot.clone());
        self.0.document(applied, permit, encoder, slot).await
    }

    /// The answer to a request on the side, whose session is deleted. A stream has it in one piece.
    async fn aside(
        &self,
        body: &ChatCompletionBody,
        applied: AppliedTurn,
        permit: StreamPermit,
    ) -> Result<Response, ApiError> {
        let session_id = applied.followed.run.session_id;
        let delivered = if body.stream == Some(true) {
            let stream = self.stream(body, applied, permit).into_body();
            let bytes = axum::body::to_bytes(stream, usize::MAX).await;
            let bytes = bytes.map_err(|_| ApiError::from(Error::Draining));
            bytes.map(|bytes| streamed(bytes.into(), StreamFormat::EventStream))
        } else {
            self.document(body, applied, permit).await
        };
        self.delete(session_id);
        delivered
    }

    /// Deletes the session of a request on the side, after the response.
    fn delete(&self, session_id: SessionId) {
        let AnswerDelivery { api, tenant, .. } = self.0;
        let own = Arc::clone(api);
        api.service.tasks.spawn(async move {
            let request = DeleteSession { tenant, session_id, with_forks: false, expected: None };
            if let Err(error) = delete_session(&own.service, request).await {
                tracing::warn!(session.id = %session_id, ?error, "a session was not deleted");
            }
        });
    }
}
