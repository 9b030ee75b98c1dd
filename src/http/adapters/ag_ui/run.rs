//! Runs.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::body::{AgUiAction, AgUiInput};
use super::encoder::AgUiStream;
use super::mapper::Mapper;
use crate::domain::agent::AgentChoice;
use crate::domain::browser_token::BrowserScope;
use crate::domain::trace::Trace;
use crate::faults::{self, Point};
use crate::http::adapters::call_answers::CallAnswers;
use crate::http::adapters::disconnect::{DisconnectGuard, OnDisconnect};
use crate::http::adapters::run_stream::stream_run;
use crate::http::adapters::turn::{AppliedTurn, MessageDraft, Turn};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::extract::query::Params;
use crate::http::state::Api;
use crate::http::stream::format::StreamFormat;
use crate::http::stream::response::streamed;
use crate::service::Error;
use crate::service::messages::find_known;
use crate::service::offload::offload;
use crate::service::session_settings::CreateSession;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(in crate::http) struct AgUiQuery {
    /// The agent of a new session: `coder`, or `coder@3`.
    #[param(value_type = Option<String>, pattern = "^[a-z0-9][a-z0-9_-]{0,63}(@[1-9][0-9]{0,8})?$")]
    agent: Option<AgentChoice>,
    /// What a closed connection means: `cancel`, the default, cancels the run; with `continue` it goes
    /// on.
    #[serde(default)]
    #[param(inline)]
    on_disconnect: OnDisconnect,
}

/// Takes the input of a run of an AG-UI client, and streams the events of the run.
///
/// The first request with a `threadId` creates the session of the conversation. A new user message
/// starts a run; the same message again follows its run. `resume` decides on calls that wait for an
/// approval, and `tool` messages are the results of calls that wait for the client; both continue the
/// same run. Nothing else of the messages has an effect. A new message while calls wait cancels the run
/// that waits.
///
/// A closed connection cancels the run.
#[utoipa::path(
    post, path = "/ag-ui", operation_id = "run_ag_ui_agent", tag = "ag_ui",
    params(AgUiQuery),
    request_body = AgUiInput,
    responses(
        (status = 200, description = "The events of the run.", body = String, content_type = "text/event-stream"),
        (status = 400, description = "`bad_json`, `body_incomplete`, `invalid_query`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`agent_not_found`, `approval_not_found`, `tool_call_not_found`; `session_not_found` for answers, and for a browser token, with which the session must exist", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_resolved`, `call_not_waiting`, `queue_full`, `session_busy`, `action_required`, `session_archived`", body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "`approval_expired`, `tool_result_expired`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`overloaded`, `rate_limited`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_streams`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
        (status = 507, description = "`storage_quota_exceeded`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn run_ag_ui_agent(
    State(api): State<Arc<Api>>,
    caller: Caller,
    query: Params<AgUiQuery>,
    Extension(trace): Extension<Trace>,
    body: LargeJsonBody<AgUiInput>,
) -> Result<Response, ApiError> {
    let Params(AgUiQuery { agent, on_disconnect }) = query;
    let LargeJsonBody(mut input, body_permits) = body;
    let bytes = body_permits.bytes();
    let parsed = offload(bytes, move || input.parse().map(|request| (input, request)));
    let (input, (action, answers)) = parsed.await??;
    if api.draining.is_cancelled() {
        return Err(Error::Draining.into());
    }
    // Before the request takes effect: one that gets no stream must not have started a run.
    let permit = api.stream_permit(&caller)?;
    let turn = Turn { service: &api.service, caller: &caller, trace, bytes };
    // Boxed, because the future is large.
    let applied = match action {
        AgUiAction::Submit(draft) => {
            let creation = CreateSession::default().with_external_id(&input.thread_id)?;
            let creation = creation.with_agent(agent, None)?;
            Box::pin(submit(&turn, &input.thread_id, creation, draft, answers)).await?
        }
        AgUiAction::Answer => {
            let session = turn.find(&input.thread_id).await?;
            Box::pin(turn.answer(session.id, answers)).await?
        }
    };
    drop(body_permits);
    faults::point(Point::BeforeReply).await;
    let AppliedTurn { followed, subscription, .. } = applied;
    let run = &followed.run;
    let encoder = AgUiStream::new(Mapper::new(input.ids(), Some(run)), Vec::new());
    // A browser that may not cancel runs cannot do so by closing the connection either.
    let goes_on =
        on_disconnect == OnDisconnect::Continue || caller.require(BrowserScope::Cancel).is_err();
    let guard = DisconnectGuard {
        api: Arc::clone(&api),
        tenant: caller.tenant,
        session_id: run.session_id,
        run_id: run.id,
        is_done: goes_on,
    };
    let stream = stream_run(&api, caller.tenant, &followed, (subscription, permit), encoder);
    Ok(streamed(guard.guard(stream), StreamFormat::EventStream))
}

/// Posts a new message, or follows the run of a repeated one.
async fn submit(
    turn: &Turn<'_>,
    thread_id: &str,
    creation: CreateSession,
    draft: MessageDraft,
    answers: CallAnswers,
) -> Result<AppliedTurn, ApiError> {
    let id = draft.id.clone().unwrap_or_default();
    // Before the session is created: a request that is refused leaves none.
    let message = turn.check(draft).await?;
    let message = match turn.start(&creation, message, |_| true).await? {
        Ok(applied) => return Ok(applied),
        Err(message) => message,
    };
    let session = turn.open(thread_id, creation).await?;
    if session.is_waiting
        && find_known(turn.service, turn.tenant(), session.id, &id).await?.is_none()
    {
        turn.settle_waiting(&session, answers).await?;
    }
    turn.post(&turn.message(session.id, message)).await
}
