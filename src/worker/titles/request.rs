//! The request for a title: one try, because a title is not worth the retries that answers need.

use std::time::Instant;

use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{TIME_LIMIT, TitleTask};
use crate::domain::request::{RequestForm, RequestRecord, hexadecimal};
use crate::domain::stop_reason::ModelStop;
use crate::domain::title::{TitleRequest, title_in};
use crate::domain::tool::ToolChoice;
use crate::domain::trace::Trace;
use crate::domain::usage::Usage;
use crate::metrics::RequestOutcome;
use crate::model::server_health::Health;
use crate::model::{Messages, Model, ModelError, Reply, ReplyStream, Request, estimated_tokens};
use crate::worker::model_call::model_try::TryRecorder;
use crate::worker::services::Services;
use crate::worker::time::millis_since;

/// A request that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) record: RequestRecord,
    /// The title, if the reply has one.
    pub(super) title: Option<String>,
}

/// Sends a request and reads its reply, until `stop` is cancelled. None if nothing was sent: while the
/// model's server fails, titles are not worth a request.
pub(super) async fn send(
    services: &Services,
    task: &TitleTask,
    title: TitleRequest,
    stop: &CancellationToken,
) -> Option<Ended> {
    let model = task.settings.model_ref();
    let server = services.models.of(model)?;
    let health = server.health_of(model);
    let mut pass = health.breaker.enter(tokio::time::Instant::now()).ok()?;
    // Answers need the requests of a limited provider more.
    let permit = match &server.limit {
        Some(limit) => Some(limit.try_acquire()?),
        None => None,
    };
    let request = request_of(&server.client, task, &title)?;
    let (body, started) = (request.body.clone(), Instant::now());
    let mut recorder = TryRecorder::begin();
    let mut stream = None;
    let reading = timeout(TIME_LIMIT, read(&server.client, request, &mut stream, &mut recorder));
    let ended = stop.run_until_cancelled(reading).await;
    let ended = ended.map(|done| done.unwrap_or(Err(ModelError::Idle(TIME_LIMIT))));
    if let Some(ended) = &ended {
        recorder.ended(ended.as_ref().err());
        let seen = ended.as_ref().err().map_or(Health::Healthy, Health::of);
        pass.report(seen, tokio::time::Instant::now());
    }
    drop((pass, permit));
    let outcome = match &ended {
        Some(Ok(_)) => RequestOutcome::Replied,
        Some(Err(_)) => RequestOutcome::Failed,
        None => RequestOutcome::Stopped,
    };
    services.count_request(server, outcome);
    if let Some(Err(error)) = &ended {
        tracing::warn!(run.id = %task.run_id, %error, "request for a title failed");
    }
    let (reply, error) = match ended {
        Some(Ok(reply)) => (Some(reply), None),
        Some(Err(error)) => (None, Some(error.for_clients())),
        None => (None, None),
    };
    let usage = reply.as_ref().map_or_else(|| partial(stream, body.len()), |reply| reply.usage);
    let is_used = reply.is_some() || usage != Usage::default();
    let record = RequestRecord {
        model: task.settings.model.clone(),
        message_seq: 0,
        form: form_of(&server.client, task, title),
        body_hash: hexadecimal(&Sha256::digest(&body)),
        body_length: i64::try_from(body.len()).unwrap_or(i64::MAX),
        prefix: None,
        attempts: vec![recorder.finish()],
        stop_reason: reply.as_ref().map(|reply| reply.stop.as_str().to_owned()),
        error,
        usage,
        usage_estimated: reply.is_none() && is_used,
        cost: task.settings.price.filter(|_| is_used).map(|price| price.cost(&usage)),
        duration_ms: millis_since(started),
    };
    Some(Ended { record, title: reply.as_ref().and_then(title_of) })
}

fn request_of(model: &Model, task: &TitleTask, title: &TitleRequest) -> Option<Request> {
    let prompt = title.prompt();
    let settings = task.settings.for_prompt(prompt);
    let head = model.head(&settings, None, None).ok()?;
    let text = prompt.messages();
    let messages =
        Messages { text: &text, far_breakpoint: None, is_compacted: false, container: None };
    let trace = task.trace.map(Trace::next);
    Some(Request { trace, ..head.request(messages, &ToolChoice::AUTO) })
}

fn form_of(model: &Model, task: &TitleTask, title: TitleRequest) -> RequestForm {
    RequestForm {
        tool_choice: ToolChoice::AUTO,
        prompt_cache: None,
        far_breakpoint: None,
        sent_changes: 0,
        compacted: None,
        summary: false,
        question: None,
        chat_completions: model.dialect(),
        platform: model.platform(),
        responses: model.is_responses(),
        max_tokens: Some(title.max_tokens),
        model_settings: task.model_settings.clone(),
        container: None,
        fallback: None,
        title: Some(title),
        unread: 0,
    }
}

/// Sends the request and reads the whole reply. What is received stays in `stream`.
async fn read(
    model: &Model,
    request: Request,
    stream: &mut Option<ReplyStream>,
    recorder: &mut TryRecorder,
) -> Result<Reply, ModelError> {
    let sent = model.send(request).await;
    if let Some((status, head)) = sent.as_ref().err().and_then(ModelError::head) {
        recorder.head(status, head);
    }
    let stream = stream.insert(sent?);
    recorder.head(200, stream.head());
    while stream.next().await?.is_some() {}
    stream.finish()
}

/// What a reply that is not complete has used.
fn partial(stream: Option<ReplyStream>, sent: usize) -> Usage {
    let Some(reply) = stream.and_then(ReplyStream::abandon) else { return Usage::default() };
    let mut usage = reply.usage;
    if usage.prompt() == 0 {
        // The server reports the input later, as all servers of Chat Completions do.
        usage.input_tokens = estimated_tokens(sent);
    }
    usage
}

/// The title in a reply that the model has finished.
fn title_of(reply: &Reply) -> Option<String> {
    let is_whole = matches!(reply.stop, ModelStop::EndTurn | ModelStop::StopSequence(_));
    let text = reply.content.joined_text().ok().filter(|_| is_whole)?;
    title_in(&text)
}
