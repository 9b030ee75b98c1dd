//! Posting a message: the one endpoint that starts work, in its three forms.

mod answer;
mod body;

use axum::extract::State;
use axum::response::Response;
use http::HeaderMap;
use sha2::{Digest as _, Sha256};

use super::known_session;
use super::runs::known_run;
use crate::bus::Reservation;
use crate::domain::claim::Claimed;
use crate::domain::event::{EventBody, NewEvent, Streamed};
use crate::domain::ids::{MessageId, RunId, SessionId, TenantId};
use crate::domain::message::Content;
use crate::domain::run::{Run, RunOptions, RunStatus, Usage};
use crate::http::Api;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::{Form, JsonBody, SessionPath, wait_seconds};
use crate::http::resources::RunResource;
use crate::store::accept::{
    Accepted, AcceptedRun, Earlier, MAX_QUEUED, NewRun, accept, find_earlier,
};
use crate::store::claim::release;
use crate::store::sessions::find;
use answer::accepted;
use body::CreateMessage;

/// Posts a message, which starts a run, or waits for its turn behind the session's live one.
///
/// Without more, the answer is 202 with the run. `Accept: text/event-stream` streams the run's
/// events until it settles; `Prefer: wait=N` answers with the settled run if it settles within
/// N seconds. Leaving does not stop the run.
#[utoipa::path(
    post, path = "/sessions/{session_id}/messages", operation_id = "create_message", tag = "messages",
    params(
        ("session_id" = String, Path, description = "The session."),
        ("Accept" = Option<String>, Header, description = "`text/event-stream` to stream."),
        ("Prefer" = Option<String>, Header, description = "`wait=N` to wait for the answer."),
        ("Idempotency-Key" = Option<String>, Header,
         description = "A second post to this session with the same key and body gives the same run."),
        ("Last-Event-ID" = Option<String>, Header,
         description = "Where a repeated post goes on streaming."),
    ),
    request_body = CreateMessage,
    responses(
        (status = 202, description = "The run, accepted.", body = RunResource,
         headers(("location" = String, description = "The run's path."),
                 ("idempotency-replayed" = String, description = "`true` for a repeated post."))),
        (status = 200, description = "The run, settled; or the stream of its events.",
         content((RunResource = "application/json"), (Streamed<'static> = "text/event-stream"))),
        (status = 400, description = "`bad_json`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
        (status = 408, description = "`request_timeout`", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "`queue_full`", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "`body_too_large`", body = Problem, content_type = "application/problem+json"),
        (status = 415, description = "`unsupported_media_type`", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "`validation_failed`, `idempotency_key_reused`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`draining`, `database_unavailable`, `too_many_streams`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn create_message(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
    headers: HeaderMap,
    body: JsonBody<CreateMessage>,
) -> Result<Response, ApiError> {
    let SessionPath(session_id) = path;
    let JsonBody(message) = body;
    let form = if message.stream { Form::EventStream } else { Form::of(&headers)? };
    message.check()?;
    if api.draining.is_cancelled() {
        return Err(ApiError::Draining);
    }
    // Before the run exists: nothing that it does is missed.
    let subscription = api.bus.subscribe(session_id);
    let post = Post { api: &api, tenant: caller.tenant, session_id, message, headers: &headers };
    let taken = post.take().await?;
    match (form, wait_seconds(&headers)) {
        (Form::EventStream, _) => post.stream(&taken, subscription).await,
        (Form::Json, Some(seconds)) => post.wait(taken, subscription, seconds).await,
        (Form::Json, None) => Ok(accepted(taken)),
    }
}

struct Post<'a> {
    api: &'a Api,
    tenant: TenantId,
    session_id: SessionId,
    message: CreateMessage,
    headers: &'a HeaderMap,
}

/// The run of a post, and whether it was there before.
struct Taken {
    run: Run,
    is_repeated: bool,
}

impl Post<'_> {
    /// Accepts the message, or finds the run that the same post made before.
    async fn take(&self) -> Result<Taken, ApiError> {
        let key = self.idempotency_key()?;
        let content = self.content_for_session().await?;
        let options = RunOptions {
            limits: self.message.limits.clone(),
            tool_choice: self.message.tool_choice.clone(),
        };
        let fingerprint = fingerprint(self.session_id, content.as_str(), &options)?;
        let may_repeat = key.is_some() || self.message.id.is_some();
        if may_repeat && let Some(taken) = self.repeated(key, &fingerprint).await? {
            return Ok(taken);
        }
        let run_id = RunId::new();
        let message_id = self.message.id.clone().unwrap_or_else(|| MessageId::new().to_string());
        let body = EventBody::UserMessage { content: content.clone() };
        let event = NewEvent::with_id(message_id.clone(), &body);
        let new = NewRun {
            id: run_id,
            tenant: self.tenant,
            session_id: self.session_id,
            message_id: &message_id,
            input: content.as_str(),
            options: &options,
            idempotency_key: key,
            client_message_id: self.message.id.as_deref(),
            fingerprint: &fingerprint,
            event: &event,
            worker: None,
        };
        self.accept(new).await
    }

    /// Accepts the message, and hands its run to the worker of this process if it can begin.
    async fn accept(&self, mut new: NewRun<'_>) -> Result<Taken, ApiError> {
        let reservation = self.api.bus.reserve();
        new.worker = reservation.as_ref().map(Reservation::worker);
        let mut conn = self.api.pool.acquire().await?;
        let accepted = accept(&mut conn, &new).await?;
        conn.give_back();
        match accepted {
            Accepted::Run(accepted) => {
                let run = accepted_run(&new, &accepted);
                self.api.bus.publish(self.session_id, accepted.frames);
                match (accepted.begun, reservation) {
                    (Some(begun), Some(reservation)) => self.hand_over(reservation, begun).await?,
                    _ => self.api.bus.announce_work(),
                }
                Ok(Taken { run, is_repeated: false })
            }
            Accepted::Refused => {
                known_session(self.api, self.tenant, self.session_id).await?;
                // The same post may have taken the last place a moment ago.
                let earlier = self.repeated(new.idempotency_key, new.fingerprint).await?;
                earlier.ok_or(ApiError::QueueFull(MAX_QUEUED))
            }
            Accepted::Repeated => {
                let earlier = self.repeated(new.idempotency_key, new.fingerprint).await?;
                earlier.ok_or_else(|| ApiError::Internal("no earlier run for a key".to_owned()))
            }
        }
    }

    async fn hand_over(&self, reservation: Reservation, run: Claimed) -> Result<(), ApiError> {
        if let Err(run) = reservation.hand_over(run) {
            // The worker stops just now: another one is to take the run over at once.
            let mut conn = self.api.pool.acquire().await?;
            release(&mut conn, run.fence, false).await?;
        }
        Ok(())
    }

    fn idempotency_key(&self) -> Result<Option<&str>, ApiError> {
        let Some(value) = self.headers.get("idempotency-key") else {
            return Ok(None);
        };
        match value.to_str() {
            Ok(key) if (1..=255).contains(&key.len()) => Ok(Some(key)),
            _ => Err(ApiError::field(
                "",
                "the Idempotency-Key header is not 1 to 255 printable characters",
            )),
        }
    }

    /// The message's content, once it is sure that the session can serve what the message asks.
    async fn content_for_session(&self) -> Result<Content, ApiError> {
        let has_cost = self.message.limits.cost.is_some();
        if self.message.tool_choice.is_forced() || has_cost {
            let mut conn = self.api.pool.acquire().await?;
            let session = find(&mut conn, self.tenant, self.session_id)
                .await?
                .ok_or_else(|| ApiError::SessionNotFound(self.session_id.to_string()))?;
            if let Some(reason) = session.settings.refuses(&self.message.tool_choice) {
                return Err(ApiError::field("/tool_choice", reason));
            }
            if has_cost && session.settings.price.is_none() {
                let model = session.settings.model;
                return Err(ApiError::field(
                    "/limits/cost",
                    format!("no price is known for {model}; the operator gives it with --prices"),
                ));
            }
        }
        self.message.content()
    }

    async fn repeated(
        &self,
        key: Option<&str>,
        fingerprint: &[u8],
    ) -> Result<Option<Taken>, ApiError> {
        let message_id = self.message.id.as_deref();
        let mut conn = self.api.pool.acquire().await?;
        let earlier =
            find_earlier(&mut conn, self.tenant, self.session_id, key, message_id).await?;
        drop(conn);
        let Some(Earlier { run_id, session_id, fingerprint: before }) = earlier else {
            return Ok(None);
        };
        if before != fingerprint {
            return Err(ApiError::IdempotencyKeyReused { run_id });
        }
        let run = known_run(self.api, self.tenant, session_id, run_id).await?;
        Ok(Some(Taken { run, is_repeated: true }))
    }
}

fn accepted_run(new: &NewRun<'_>, accepted: &AcceptedRun) -> Run {
    let is_begun = accepted.begun.is_some();
    Run {
        id: new.id,
        session_id: new.session_id,
        message_id: new.message_id.to_owned(),
        status: if is_begun { RunStatus::Running } else { RunStatus::Queued },
        accepted_seq: accepted.frames.first().map_or(0, |frame| frame.seq),
        queue_position: (!is_begun).then_some(accepted.queued.into()),
        outcome: None,
        model_requests: 0,
        usage: Usage::default(),
        created_at: accepted.created_at,
        started_at: is_begun.then_some(accepted.created_at),
        finished_at: None,
    }
}

/// What makes two posts the same post.
fn fingerprint(
    session_id: SessionId,
    content: &str,
    options: &RunOptions,
) -> Result<Vec<u8>, ApiError> {
    let options =
        serde_json::to_string(options).map_err(|error| ApiError::Internal(error.to_string()))?;
    let mut hash = Sha256::new();
    for part in [session_id.to_string().as_str(), content, &options] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    Ok(hash.finalize().to_vec())
}
