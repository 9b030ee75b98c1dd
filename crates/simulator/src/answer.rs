//! From the body of a messages request to its response.

use std::num::NonZeroUsize;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::admission::Admission;
use super::context::View;
use super::conversation::{Cue, Pick, pick};
use super::emit::{self, Wire};
use super::message::Message;
use super::protocol::Protocol;
use super::refusal::{Refusal, kind_of, status_of};
use super::render;
use super::request::Ask;
use super::script::{Failure, Reply, Script};
use super::signature::Prefix;
use super::summary::compose;
use super::validate::{self, Endpoint, Rules};
use super::{Shared, deliver};

/// A response and how long to wait before it is sent.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) delay: Duration,
    pub(crate) response: Response<Body>,
}

/// Validates a request and plays the script's reply to it.
pub(crate) fn answer(
    shared: &Shared,
    admission: Admission,
    body: &Bytes,
    request_id: &str,
) -> Result<Answer, Refusal> {
    let value = parse(body)?;
    let ask = Ask(object_of(&value)?);
    let view = View::of(ask, body.len());
    validate::check(ask, &rules(shared, admission, &view, Endpoint::Messages))?;
    unreadable(&shared.script(), ask)?;
    if ask.get("max_tokens").is_some_and(|most| most == 0) && ask.compaction().is_none() {
        let message = render::warm_up(ask, shared.input(view.ask(), view.size));
        return Ok(respond(shared, &Reply::default(), Wire::json(&message.to_json()), false));
    }
    play(shared, Protocol::Messages, ask, &view, request_id)
}

/// Refuses what the script says that nobody could read.
fn unreadable(script: &Script, ask: Ask<'_>) -> Result<(), Refusal> {
    let refused = script.unreadable.iter().find_map(|unreadable| unreadable.refuses(ask));
    refused.map_or(Ok(()), Err)
}

/// The answer of `count_tokens`, delivered as the script says.
pub(crate) fn count(
    shared: &Shared,
    admission: Admission,
    body: &Bytes,
    request_id: &str,
) -> Result<Answer, Refusal> {
    let value = parse(body)?;
    let ask = Ask(object_of(&value)?);
    let view = View::of(ask, body.len());
    validate::check(ask, &rules(shared, admission, &view, Endpoint::CountTokens))?;
    let script = shared.script();
    let reply = attempt(shared, &script.counting, ask, "counting");
    if reply.status.is_some() {
        return Ok(fail(shared, Protocol::Messages, reply, request_id));
    }
    Ok(respond(shared, reply, Wire::json(&view.count()), false))
}

pub(crate) fn parse(body: &Bytes) -> Result<Value, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::invalid(format!("The request body is not valid JSON: {error}")))
}

pub(crate) fn object_of(value: &Value) -> Result<&Map<String, Value>, Refusal> {
    let wrong = || Refusal::invalid("The request body must be a JSON object");
    value.as_object().ok_or_else(wrong)
}

fn rules(shared: &Shared, admission: Admission, view: &View<'_>, endpoint: Endpoint) -> Rules {
    Rules {
        endpoint,
        version: admission.version,
        betas: admission.betas,
        refuse_unknown_fields: shared.options.refuse_unknown_fields,
        max_input_tokens: shared.options.max_input_tokens,
        tokens: view.tokens(),
    }
}

/// The script's reply to a request that the model sees like this, which is in the form of the
/// Messages API in whatever protocol it came.
pub(crate) fn play(
    shared: &Shared,
    protocol: Protocol,
    ask: Ask<'_>,
    view: &View<'_>,
    request_id: &str,
) -> Result<Answer, Refusal> {
    let script = shared.script();
    let cue = Cue::of(&script, ask);
    let Pick { source, reply } = pick(&script, ask, &cue)?;
    let reply = attempt(shared, &reply, ask, &format!("{source:?}.{}", cue.round));
    if reply.status.is_some() || (reply.error_after.is_some() && !ask.streams()) {
        return Ok(fail(shared, protocol, reply, request_id));
    }
    let message = || compose(shared, &script, reply, (ask, &cue), view);
    let wire = write(protocol, reply, ask, message)?;
    let wire = with_error(wire, protocol, reply, request_id);
    Ok(respond(shared, reply, wire, ask.streams()))
}

/// The reply, or what this attempt at the very same request gets in its place.
fn attempt<'a>(shared: &Shared, reply: &'a Reply, ask: Ask<'_>, source: &str) -> &'a Reply {
    if reply.fail_first.is_empty() {
        return reply;
    }
    let key = format!("{source}.{}", Prefix::of(ask).digest());
    reply.fail_first.get(shared.attempts.before(key)).unwrap_or(reply)
}

/// The body of the reply, before anything goes wrong with it.
fn write(
    protocol: Protocol,
    reply: &Reply,
    ask: Ask<'_>,
    message: impl FnOnce() -> Message,
) -> Result<Wire, Refusal> {
    if let Some(text) = &reply.raw_sse {
        return if ask.streams() {
            Ok(Wire::verbatim(text))
        } else {
            Err(Refusal::invalid("script: a `raw_sse` reply needs `stream: true`"))
        };
    }
    let message = message();
    if !ask.streams() {
        return Ok(Wire::json(&protocol.json(&message)));
    }
    let chunk = reply.chunk.map_or(emit::CHUNK, NonZeroUsize::get);
    Ok(protocol.stream(&message, chunk))
}

/// Breaks the stream off with an error if the reply says so.
fn with_error(mut wire: Wire, protocol: Protocol, reply: &Reply, request_id: &str) -> Wire {
    if let Some(events) = reply.error_after {
        wire.keep_events(events);
        protocol.break_off(&mut wire, &failure(reply, StatusCode::OK), request_id);
    }
    wire
}

/// An HTTP error in place of a reply.
fn fail(shared: &Shared, protocol: Protocol, reply: &Reply, request_id: &str) -> Answer {
    let scripted = reply.status.and_then(|status| StatusCode::from_u16(status).ok());
    let failure = failure(reply, scripted.unwrap_or_default());
    let wire = match &reply.body {
        Some(body) => Wire::verbatim(body),
        None => Wire::json(&protocol.error(&failure, request_id)),
    };
    let mut answer = respond(shared, reply, wire, false);
    *answer.response.status_mut() = scripted.unwrap_or_else(|| status_of(&failure.kind));
    answer
}

/// The scripted error, or one that suits the status; without either, an overload.
fn failure(reply: &Reply, status: StatusCode) -> Failure {
    reply.error.clone().unwrap_or_else(|| {
        let kind = if status == StatusCode::OK { "overloaded_error" } else { kind_of(status) };
        Failure { kind: kind.to_owned(), message: "scripted failure".to_owned(), details: None }
    })
}

fn respond(shared: &Shared, reply: &Reply, wire: Wire, streams: bool) -> Answer {
    let mut response = Response::new(deliver::body(wire, reply, shared.stop.clone()));
    let kind = if streams { "text/event-stream; charset=utf-8" } else { "application/json" };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in &reply.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse()) {
            response.headers_mut().insert(name, value);
        }
    }
    Answer { delay: Duration::from_millis(reply.delay_ms), response }
}
