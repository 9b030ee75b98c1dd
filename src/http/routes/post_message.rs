//! Posting a message: the one endpoint that starts work, in its three forms.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_LOCATION, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout_at};

use super::known_session;
use super::runs::known_run;
use super::sessions::limit_errors;
use crate::bus::{Signal, Subscription};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{MessageId, RunId, SessionId, TenantId};
use crate::domain::message::Content;
use crate::domain::run::{Limits, Run, RunOptions, RunStatus, Usage};
use crate::domain::tool::ToolChoice;
use crate::http::Api;
use crate::http::auth::Caller;
use crate::http::error::{ApiError, FieldError, Problem};
use crate::http::extract::{Form, JsonBody, SessionPath, resume_after, wait_seconds};
use crate::http::resources::{RunResource, run_path};
use crate::http::sse::{Follow, respond};
use crate::store::accept::{Accepted, Earlier, MAX_QUEUED, NewRun, accept, find_earlier};
use crate::store::sessions::find;

/// A user message.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CreateMessage {
    /// A text, or text blocks.
    content: MessageContent,
    /// The client's own id of the message, 1 to 128 of letters, digits, `_`, `.` and `-`.
    /// A second post with the same id and content gives the same run.
    id: Option<String>,
    /// Whether to answer with an event stream; `Accept: text/event-stream` says the same.
    #[serde(default)]
    stream: bool,
    /// The limits of the run; the session's where absent.
    #[serde(default)]
    limits: Limits,
    /// How the model may use tools in the first round.
    #[serde(default)]
    tool_choice: ToolChoice,
}

/// A text, or blocks.
#[derive(Debug, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(untagged, expecting = "expected a string or an array of text blocks")]
enum MessageContent {
    /// One text.
    Text(String),
    /// Text blocks.
    Blocks(Vec<TextBlock>),
}

/// A block of text.
#[derive(Debug, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
struct TextBlock {
    /// `text`.
    r#type: TextType,
    /// The text.
    text: String,
}

#[derive(Debug, Deserialize, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
enum TextType {
    Text,
}

impl CreateMessage {
    fn check(&self) -> Result<(), ApiError> {
        let mut errors = limit_errors(&self.limits, "/limits");
        let mut refuse = |pointer: String, message: &str| {
            errors.push(FieldError {
                pointer,
                message: message.to_owned(),
            });
        };
        match &self.content {
            MessageContent::Text(text) => {
                if let Some(problem) = text_problem(text) {
                    refuse("/content".to_owned(), problem);
                }
            }
            MessageContent::Blocks(blocks) if blocks.is_empty() => {
                refuse("/content".to_owned(), "is empty");
            }
            MessageContent::Blocks(blocks) => {
                for (index, block) in blocks.iter().enumerate() {
                    if let Some(problem) = text_problem(&block.text) {
                        refuse(format!("/content/{index}/text"), problem);
                    }
                }
            }
        }
        if self.id.as_deref().is_some_and(|id| !is_message_id(id)) {
            refuse(
                "/id".to_owned(),
                "is not 1 to 128 of letters, digits, '_', '.' and '-'",
            );
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(ApiError::Validation(errors))
        }
    }

    fn content(&self) -> Result<Content, ApiError> {
        let content = match &self.content {
            MessageContent::Text(text) => Content::text(text),
            MessageContent::Blocks(blocks) => serde_json::to_string(blocks)
                .map_err(Into::into)
                .and_then(Content::parse),
        };
        content.map_err(|error| ApiError::Internal(error.to_string()))
    }
}

/// What the model or the database would not take.
fn text_problem(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        return Some("is blank");
    }
    text.contains('\0').then_some("has a NUL")
}

fn is_message_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=128).contains(&id.len()) && id.chars().all(is_plain)
}

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
         description = "A second post with the same key and body gives the same run."),
        ("Last-Event-ID" = Option<String>, Header,
         description = "Where a repeated post goes on streaming."),
    ),
    request_body = CreateMessage,
    responses(
        (status = 202, description = "The run, accepted.", body = RunResource,
         headers(("location" = String, description = "The run's path."),
                 ("idempotency-replayed" = String, description = "`true` for a repeated post."))),
        (status = 200, description = "The run, settled; or the stream of its events.",
         content((RunResource = "application/json"), (crate::domain::event::Event = "text/event-stream"))),
        (status = 400, description = "`bad_json`", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 406, description = "`not_acceptable`", body = Problem, content_type = "application/problem+json"),
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
    let form = if message.stream {
        Form::EventStream
    } else {
        Form::of(&headers)?
    };
    message.check()?;
    if api.draining.is_cancelled() {
        return Err(ApiError::Draining);
    }
    // Before the run exists: nothing that it does is missed.
    let subscription = api.bus.subscribe(session_id);
    let post = Post {
        api: &api,
        tenant: caller.tenant,
        session_id,
        message,
        headers: &headers,
    };
    let taken = post.take().await?;
    match (form, wait_seconds(&headers)) {
        (Form::EventStream, _) => post.stream(&taken, subscription),
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
        let message_id = self
            .message
            .id
            .clone()
            .unwrap_or_else(|| MessageId::new().to_string());
        let body = EventBody::UserMessage {
            content: content.clone(),
        };
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
        };
        self.accept(&new).await
    }

    async fn accept(&self, new: &NewRun<'_>) -> Result<Taken, ApiError> {
        let mut conn = self.api.pool.acquire().await?;
        let accepted = accept(&mut conn, new).await?;
        conn.give_back();
        match accepted {
            Accepted::Run {
                frame,
                created_at,
                queued,
            } => {
                let accepted_seq = frame.seq;
                self.api.bus.publish(self.session_id, vec![*frame]);
                self.api.bus.announce_work();
                let run = queued_run(new, accepted_seq, queued, created_at);
                Ok(Taken {
                    run,
                    is_repeated: false,
                })
            }
            Accepted::Refused => {
                known_session(self.api, self.tenant, self.session_id).await?;
                Err(ApiError::QueueFull(MAX_QUEUED))
            }
            Accepted::Repeated => {
                let earlier = self.repeated(new.idempotency_key, new.fingerprint).await?;
                earlier.ok_or_else(|| ApiError::Internal("no earlier run for a key".to_owned()))
            }
        }
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
        if self.message.tool_choice.is_forced() {
            let mut conn = self.api.pool.acquire().await?;
            let session = find(&mut conn, self.tenant, self.session_id)
                .await?
                .ok_or_else(|| ApiError::SessionNotFound(self.session_id.to_string()))?;
            if let Some(reason) = session.settings.refuses(&self.message.tool_choice) {
                return Err(ApiError::field("/tool_choice", reason));
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
        let Some(Earlier {
            run_id,
            session_id,
            fingerprint: before,
        }) = earlier
        else {
            return Ok(None);
        };
        if before != fingerprint {
            return Err(ApiError::IdempotencyKeyReused { run_id });
        }
        let run = known_run(self.api, self.tenant, session_id, run_id).await?;
        Ok(Some(Taken {
            run,
            is_repeated: true,
        }))
    }

    /// Streams the run. A repeated post goes on where the client says that it was.
    fn stream(&self, taken: &Taken, subscription: Subscription) -> Result<Response, ApiError> {
        let run = &taken.run;
        let after = if taken.is_repeated {
            resume_after(self.headers, None)?
        } else {
            0
        };
        let follow = Follow {
            session_id: run.session_id,
            run_id: Some(run.id),
            after: after.max(run.accepted_seq - 1),
            deltas: true,
            is_new: !taken.is_repeated,
        };
        let mut response = respond(self.api, follow, subscription)?;
        let path = run_path(run.session_id, run.id);
        set(&mut response, LOCATION, &format!("{path}/stream"));
        set(&mut response, CONTENT_LOCATION, &path);
        mark_repeated(&mut response, taken.is_repeated);
        Ok(response)
    }

    /// Answers with the settled run, or with 202 when it does not settle in time.
    async fn wait(
        &self,
        taken: Taken,
        mut subscription: Subscription,
        seconds: u64,
    ) -> Result<Response, ApiError> {
        let until = Instant::now() + Duration::from_secs(seconds);
        let Run { id, session_id, .. } = taken.run;
        let mut run = taken.run;
        while !run.status.is_terminal() {
            let ended = async {
                loop {
                    match subscription.next().await {
                        Some(Signal::Event(frame))
                            if frame.run_id == Some(id) && frame.ends_run() =>
                        {
                            break;
                        }
                        Some(_) => {}
                        // Signals were missed; the database knows.
                        None => {
                            subscription = self.api.bus.subscribe(session_id);
                            break;
                        }
                    }
                }
            };
            let is_late = tokio::select! {
                in_time = timeout_at(until, ended) => in_time.is_err(),
                () = self.api.draining.cancelled() => true,
            };
            run = known_run(self.api, self.tenant, session_id, id).await?;
            if is_late {
                break;
            }
        }
        let is_repeated = taken.is_repeated;
        if !run.status.is_terminal() {
            return Ok(accepted(Taken { run, is_repeated }));
        }
        let path = run_path(session_id, id);
        let mut response = Json(RunResource::from(run)).into_response();
        set(&mut response, CONTENT_LOCATION, &path);
        set(
            &mut response,
            PREFERENCE_APPLIED,
            &format!("wait={seconds}"),
        );
        mark_repeated(&mut response, is_repeated);
        Ok(response)
    }
}

const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

fn accepted(taken: Taken) -> Response {
    let path = run_path(taken.run.session_id, taken.run.id);
    let resource = RunResource::from(taken.run);
    let mut response = (StatusCode::ACCEPTED, Json(resource)).into_response();
    set(&mut response, LOCATION, &path);
    set(&mut response, PREFERENCE_APPLIED, "respond-async");
    mark_repeated(&mut response, taken.is_repeated);
    response
}

fn mark_repeated(response: &mut Response, is_repeated: bool) {
    if is_repeated {
        set(
            response,
            HeaderName::from_static("idempotency-replayed"),
            "true",
        );
    }
}

/// Paths of ids and numbers always make header values.
fn set(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

fn queued_run(new: &NewRun<'_>, accepted_seq: i64, queued: i32, at: jiff::Timestamp) -> Run {
    Run {
        id: new.id,
        session_id: new.session_id,
        message_id: new.message_id.to_owned(),
        status: RunStatus::Queued,
        accepted_seq,
        queue_position: Some(queued.into()),
        outcome: None,
        model_requests: 0,
        usage: Usage::default(),
        created_at: at,
        started_at: None,
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
