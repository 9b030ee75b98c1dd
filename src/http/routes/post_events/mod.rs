//! One door to what clients do in a session: messages, interrupts, decisions and results.

mod apply;
mod body;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::HeaderMap;
use http::header::IF_MATCH;
use serde::Serialize;

use super::post_message::Post;
use super::post_message::body::CreateMessage;
use crate::domain::ids::RunId;
use crate::domain::message::Content;
use crate::domain::trace::Trace;

use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem, refused_after};
use crate::http::extract::headers::idempotency_key;
use crate::http::extract::idempotency::mark_repeated;
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::extract::path::SessionPath;
use crate::http::resources::Page;
use crate::http::server::deadline::in_time;
use crate::http::state::Api;
use crate::service::Error;
use crate::service::offload::offload;
use crate::service::session_settings::check_mode;
use apply::{Applying, applied};
use body::{CreateEvents, Read, place};

/// What became of an event.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct AppliedEvent {
    /// The type of the event.
    r#type: &'static str,
    /// Whether the same was done before, so that nothing was done now.
    repeated: bool,
    /// The runs that it has to do with: that of the message or of the call, those that were asked to
    /// stop; of a repeated request only that of its message.
    #[schema(value_type = Vec<String>)]
    run_ids: Vec<RunId>,
}

/// Does several things in a session, in their order: interrupts, decisions, results, and at last a
/// message.
///
/// Each is what its own route does: `POST …/cancel`, `…/approvals/{tool_use_id}`, `…/tool_results`,
/// `…/messages`. All that can be known of the request itself and of its session is checked before
/// anything is done. What stands before the message is then done as a whole, or not at all. The
/// message is accepted after that: if it is refused, by a queue that is full for instance, what
/// stands before it has been done, and the problem says so in `applied`.
///
/// An `Idempotency-Key`, or an `id` of the message, makes a request with a message safe to repeat:
/// none of its events is applied a second time. Without a message decisions and results need no
/// key, and an interrupt stops what runs when it comes.
#[utoipa::path(
    post, path = "/sessions/{session_id}/events", operation_id = "create_events", tag = "events",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("Idempotency-Key" = Option<String>, Header,
         description = "A second request to this session with the same key and body gives the same \
            run of the message; with another body 422. Kept as long as the session."),
    ),
    request_body = CreateEvents,
    responses(
        (status = 200, description = "What became of each event, in their order.", body = Page<AppliedEvent>,
         headers(("idempotency-replayed" = String, description = "`true` for a repeated request."))),
        (status = 400, description = "`bad_json`, `body_incomplete`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`, `approval_not_found`, `tool_call_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`already_resolved`, `call_not_waiting`; of the message: `queue_full`, `session_busy`, `action_required`, `session_archived`", body = Problem, content_type = "application/problem+json"),
        (status = 410, description = "`approval_expired`, `tool_result_expired`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`overloaded`: too many runs wait, of all sessions; `rate_limited`: more requests of this key than it may send. `Retry-After` says when to come back.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_events(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    Extension(trace): Extension<Trace>,
    mut headers: HeaderMap,
    body: LargeJsonBody<CreateEvents>,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let LargeJsonBody(events, room) = body;
    let Read { kinds, steps, message, beside } =
        offload(room.bytes(), move || events.read()).await??;
    idempotency_key(&headers)?;
    if api.draining.is_cancelled() {
        return Err(ApiError::Service(Error::Draining));
    }
    // The first event that is applied makes another version of the session.
    headers.remove(IF_MATCH);
    let (tenant, last) = (caller.tenant, place(kinds.len() - 1));
    let post = |(message, content): (CreateMessage, Content)| {
        check_mode(&api.service, message.permission_mode)?;
        let asked = (trace, &headers, beside.as_slice());
        Ok((Post::new(&api, (tenant, session_id), message, &content, asked)?, content))
    };
    let post = message.map(post).transpose().map_err(|error: ApiError| error.beneath(&last))?;
    let applying = Applying { api: &api, tenant, session_id, steps, post };
    let steps = Box::pin(in_time(async {
        applying.check(&last).await?;
        applying.take_steps().await
    }));
    let steps = steps.await?;
    let done = steps.as_ref().map_or(0, Vec::len);
    let taken = match applying.take_message().await {
        Ok(taken) => taken,
        Err(error) => return Ok(refused_after(error.beneath(&last), done)),
    };
    drop(room);
    let is_repeated = taken.as_ref().is_some_and(|taken| taken.is_repeated);
    let data = applied(&kinds, steps, taken.as_ref());
    let mut response = Json(Page::whole(data)).into_response();
    mark_repeated(&mut response, is_repeated);
    Ok(response)
}
