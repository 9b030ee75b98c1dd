//! Posting a message: the one endpoint that starts work, in its three forms.

mod answer;
pub(super) mod body;
mod census;
mod locked;
mod repeat;
mod take;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;

use crate::domain::event::Streamed;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::message::Content;
use crate::domain::run::Run;
use crate::domain::trace::Trace;
use crate::faults::{self, Point};

use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::accept::Form;
use crate::http::extract::headers::wait_seconds;
use crate::http::extract::large_body::LargeJsonBody;
use crate::http::extract::path::SessionPath;
use crate::http::resources::RunResource;
use crate::http::server::deadline::in_time;
use crate::http::state::Api;
use crate::http::stream::form::StreamForm;
use crate::service::Error;
use crate::service::offload::offload;
use crate::service::session_settings::check_mode;
use answer::accepted;
use body::CreateMessage;
use census::is_counted;

/// Posts a message, which starts a run, or waits for its turn behind the session's live one.
///
/// Without more, the answer is 202 with the run. `Accept: text/event-stream` streams the run's
/// events until it rests, settled or waiting for somebody (`requires_action`), and
/// `application/jsonl` (or `application/x-ndjson`) does it with one event a line. `Prefer: wait=N`
/// answers with the run as it rests, if it does within N seconds. Leaving does not stop the run.
///
/// Runs of a session begin in the order in which their messages were accepted. `on_busy` says what
/// a message means while a run is live or others wait; an idle session takes it in all modes.
///
/// A message may hold images, documents and search results. They are checked before they are
/// taken, by themselves and together with those that the session has already. Events only name
/// them; the history has them whole.
///
/// An `Idempotency-Key`, or an `id` in the body, makes the post safe to repeat: a second one with
/// the same body gives the same run, however busy the session or the service is, and interrupts
/// nothing. Both are kept as long as the session.
#[utoipa::path(
    post, path = "/sessions/{session_id}/messages", operation_id = "create_message", tag = "messages",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("Prefer" = Option<String>, Header, description = "`wait=N` to wait up to N seconds for \
            the answer, 120 at most; `respond-async` is what is done without."),
        ("Idempotency-Key" = Option<String>, Header,
         description = "A second post to this session with the same key and body gives the same run; \
            with another body, `on_busy` included, 422. Kept as long as the session."),
        ("If-Match" = Option<String>, Header,
         description = "The session's `ETag`: 412 if anything has happened in it since. A post that \
            was accepted before is repeated all the same."),
        ("Last-Event-ID" = Option<String>, Header,
         description = "Where a repeated post goes on streaming."),
    ),
    request_body = CreateMessage,
    responses(
        (status = 202, description = "The run, accepted.", body = RunResource,
         headers(("location" = String, description = "The run's path."),
                 ("preference-applied" = String, description = "`respond-async`, and `wait=N` if it was waited for."),
                 ("idempotency-replayed" = String, description = "`true` for a repeated post."))),
        (status = 200, description = "The run at rest, settled or waiting for somebody; or the stream of its events.",
         content((RunResource = "application/json"), (Streamed<'static> = "text/event-stream"),
                 (Streamed<'static> = "application/jsonl"), (Streamed<'static> = "application/x-ndjson")),
         headers(("location" = Option<String>, description = "The path of the stream."),
                 ("content-location" = String, description = "The run's path."),
                 ("preference-applied" = Option<String>, description = "`wait=N`, for the run at rest."),
                 ("idempotency-replayed" = Option<String>, description = "`true` for a repeated post."))),
        (status = 400, description = "`bad_json`, `body_incomplete`, `invalid_cursor`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`queue_full`; `session_busy`, with `active_run_id` and `Retry-After`; `action_required`, with `active_run_id`; `session_archived`", body = Problem, content_type = "application/problem+json"),
        (status = 412, description = "`version_mismatch`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "`overloaded`: too many runs wait, of all sessions; `rate_limited`: more requests of this key than it may send. `Retry-After` says when to come back.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_streams`, `too_many_waits`, `too_many_large_bodies`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_message(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    trace: Extension<Trace>,
    headers: HeaderMap,
    body: LargeJsonBody<CreateMessage>,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let LargeJsonBody(message, room) = body;
    let form = if message.stream {
        Form::Stream(StreamForm::of(&headers).unwrap_or_default())
    } else {
        Form::of(&headers)?
    };
    let (message, content) = offload(room.bytes(), move || message.check()).await??;
    check_mode(&api.service, message.permission_mode)?;
    if api.draining.is_cancelled() {
        return Err(ApiError::Service(Error::Draining));
    }
    // Before the run exists: nobody is refused whose message has been accepted.
    let (stream, wait) = match (form, wait_seconds(&headers)) {
        (Form::Stream(form), _) => (Some((form, api.stream_permit(caller)?)), None),
        (Form::Json, Some(seconds)) => (None, Some((seconds, api.wait_permit(caller)?))),
        (Form::Json, None) => (None, None),
    };
    // And nothing that it does is missed.
    let subscription = api.bus.subscribe(session_id);
    let (Extension(trace), beside) = (trace, &[][..]);
    let post =
        Post::new(&api, (caller.tenant, session_id), message, &content, (trace, &headers, beside))?;
    // Boxed, because it is large.
    let taken = Box::pin(in_time(post.take(&content))).await?;
    drop(room);
    faults::point(Point::BeforeReply).await;
    match (stream, wait) {
        (Some(stream), _) => post.stream(&taken, subscription, stream).await,
        (None, Some((seconds, _place))) => post.wait(taken, subscription, seconds).await,
        (None, None) => Ok(accepted(taken)),
    }
}

/// A message on its way into its session.
pub(super) struct Post<'a> {
    api: &'a Api,
    tenant: TenantId,
    session_id: SessionId,
    message: CreateMessage,
    /// Whether its content counts in its session, beside what that holds already.
    is_counted: bool,
    trace: Trace,
    headers: &'a HeaderMap,
    /// What is asked together with the message, in the same request.
    beside: &'a [u8],
}

impl<'a> Post<'a> {
    /// A message to a session of a tenant, in a request of this trace, with these headers, and with
    /// what is asked beside it.
    pub(super) fn new(
        api: &'a Api,
        (tenant, session_id): (TenantId, SessionId),
        message: CreateMessage,
        content: &Content,
        (trace, headers, beside): (Trace, &'a HeaderMap, &'a [u8]),
    ) -> Result<Self, ApiError> {
        let is_counted = is_counted(content)?;
        Ok(Self { api, tenant, session_id, message, is_counted, trace, headers, beside })
    }
}

/// The run of a post, and whether it was there before.
pub(super) struct Taken {
    pub(super) run: Run,
    pub(super) is_repeated: bool,
}
