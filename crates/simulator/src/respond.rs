//! Responses to requests of the Messages API.

use std::num::NonZeroUsize;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use serde_json::{Map, Value};

use super::context::View;
use super::emit::{self, Wire};
use super::headers::ApiHeaders;
use super::message::Message;
use super::protocol::Protocol;
use super::refusal::{Refusal, kind_of, status_of};
use super::render;
use super::request::ApiRequest;
use super::script::{Failure, Reply, Script};
use super::selection::{Position, Selection, select};
use super::signature::Prefix;
use super::summary::compose;
use super::validate::{self, Endpoint, Rules};
use super::{Shared, response_body};

/// A response, and the delay before it is sent.
#[derive(Debug)]
pub(crate) struct DelayedResponse {
    pub(crate) delay: Duration,
    pub(crate) response: Response<Body>,
}

/// Validates a request and returns the scripted reply.
pub(crate) fn create_message(
    shared: &Shared,
    headers: ApiHeaders,
    body: &Bytes,
    request_id: &str,
) -> Result<DelayedResponse, Refusal> {
    let value = parse(body)?;
    let request = ApiRequest(object_of(&value)?);
    let view = View::of(request, body.len());
    validate::check(request, &rules(shared, headers, &view, Endpoint::Messages))?;
    shared.containers.check(request)?;
    unreadable(&shared.script(), request)?;
    if request.get("max_tokens").is_some_and(|most| most == 0) && request.compaction().is_none() {
        let message = render::warm_up(request, shared.input(view.request(), view.size));
        return Ok(build(shared, &Reply::default(), Wire::json(&message.to_json()), false));
    }
    play(shared, Protocol::Messages, request, &view, request_id)
}

/// Refuses a request with a block that the script declares unreadable.
fn unreadable(script: &Script, request: ApiRequest<'_>) -> Result<(), Refusal> {
    let refused = script.unreadable.iter().find_map(|unreadable| unreadable.refuses(request));
    refused.map_or(Ok(()), Err)
}

/// Answers `count_tokens`, with the delivery options of the script.
pub(crate) fn count_tokens(
    shared: &Shared,
    headers: ApiHeaders,
    body: &Bytes,
    request_id: &str,
) -> Result<DelayedResponse, Refusal> {
    let value = parse(body)?;
    let request = ApiRequest(object_of(&value)?);
    let view = View::of(request, body.len());
    validate::check(request, &rules(shared, headers, &view, Endpoint::CountTokens))?;
    let script = shared.script();
    let reply = nth_repetition(shared, &script.counting, request, "counting");
    if reply.status.is_some() {
        return Ok(http_error(shared, Protocol::Messages, reply, request_id));
    }
    Ok(build(shared, reply, Wire::json(&view.count()), false))
}

pub(crate) fn parse(body: &Bytes) -> Result<Value, Refusal> {
    serde_json::from_slice(body)
        .map_err(|error| Refusal::invalid(format!("The request body is not valid JSON: {error}")))
}

pub(crate) fn object_of(value: &Value) -> Result<&Map<String, Value>, Refusal> {
    let wrong = || Refusal::invalid("The request body must be a JSON object");
    value.as_object().ok_or_else(wrong)
}

fn rules(shared: &Shared, headers: ApiHeaders, view: &View<'_>, endpoint: Endpoint) -> Rules {
    Rules {
        endpoint,
        version: headers.version,
        betas: headers.betas,
        refuse_unknown_fields: shared.options.refuse_unknown_fields,
        max_input_tokens: shared.options.max_input_tokens,
        tokens: view.tokens(),
    }
}

/// Returns the scripted reply to a request in the form of the Messages API, encoded for `protocol`.
/// `view` is the request as the model sees it.
pub(crate) fn play(
    shared: &Shared,
    protocol: Protocol,
    request: ApiRequest<'_>,
    view: &View<'_>,
    request_id: &str,
) -> Result<DelayedResponse, Refusal> {
    let script = shared.script();
    let position = Position::of(&script, request);
    let Selection { source, reply } = select(&script, request, &position)?;
    let reply = nth_repetition(shared, &reply, request, &format!("{source:?}.{}", position.round));
    if reply.status.is_some() || (reply.error_after.is_some() && !request.streams()) {
        return Ok(http_error(shared, protocol, reply, request_id));
    }
    let message = || compose(shared, &script, reply, request, &position, view);
    let wire = write(protocol, reply, request, message)?;
    let wire = with_error(wire, protocol, reply, request_id);
    Ok(build(shared, reply, wire, request.streams()))
}

/// Returns the reply, or the entry of `fail_first` for this repetition of the request.
fn nth_repetition<'a>(
    shared: &Shared,
    reply: &'a Reply,
    request: ApiRequest<'_>,
    source: &str,
) -> &'a Reply {
    if reply.fail_first.is_empty() {
        return reply;
    }
    let key = format!("{source}.{}", Prefix::of(request).digest());
    reply.fail_first.get(shared.repetitions.count_previous(key)).unwrap_or(reply)
}

/// Encodes the reply, before any scripted failure.
fn write(
    protocol: Protocol,
    reply: &Reply,
    request: ApiRequest<'_>,
    message: impl FnOnce() -> Message,
) -> Result<Wire, Refusal> {
    if let Some(text) = &reply.raw_sse {
        return if request.streams() {
            Ok(Wire::verbatim(text))
        } else {
            Err(Refusal::invalid("script: a `raw_sse` reply needs `stream: true`"))
        };
    }
    let message = message();
    if !request.streams() {
        return Ok(Wire::json(&protocol.json(&message)));
    }
    let chunk = reply.chunk.map_or(emit::CHUNK, NonZeroUsize::get);
    Ok(protocol.stream(&message, chunk))
}

/// Truncates the stream and appends an error if the reply has `error_after`.
fn with_error(mut wire: Wire, protocol: Protocol, reply: &Reply, request_id: &str) -> Wire {
    if let Some(events) = reply.error_after {
        wire.keep_events(events);
        protocol.break_off(&mut wire, &failure(reply, StatusCode::OK), request_id);
    }
    wire
}

/// Returns an HTTP error instead of the reply.
fn http_error(
    shared: &Shared,
    protocol: Protocol,
    reply: &Reply,
    request_id: &str,
) -> DelayedResponse {
    let scripted = reply.status.and_then(|status| StatusCode::from_u16(status).ok());
    let failure = failure(reply, scripted.unwrap_or_default());
    let wire = match &reply.body {
        Some(body) => Wire::verbatim(body),
        None => Wire::json(&protocol.error(&failure, request_id)),
    };
    let mut delayed = build(shared, reply, wire, false);
    *delayed.response.status_mut() = scripted.unwrap_or_else(|| status_of(&failure.kind));
    delayed
}

/// Returns the scripted error, else one that matches the status, else `overloaded_error`.
fn failure(reply: &Reply, status: StatusCode) -> Failure {
    reply.error.clone().unwrap_or_else(|| {
        let kind = if status == StatusCode::OK { "overloaded_error" } else { kind_of(status) };
        Failure { kind: kind.to_owned(), message: "scripted failure".to_owned(), details: None }
    })
}

fn build(shared: &Shared, reply: &Reply, wire: Wire, streams: bool) -> DelayedResponse {
    let mut response = Response::new(response_body::body(wire, reply, shared.stop.clone()));
    let kind = if streams { "text/event-stream; charset=utf-8" } else { "application/json" };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for (name, value) in &reply.headers {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse()) {
            response.headers_mut().insert(name, value);
        }
    }
    DelayedResponse { delay: Duration::from_millis(reply.delay_ms), response }
}
