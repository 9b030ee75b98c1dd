//! Responses: `POST /v1/responses`, from the same scripts, without a store.
//!
//! The module checks a request by the rules of this protocol, converts it to the form of the Messages
//! API, and encodes the reply in this protocol.

mod emit;
mod input;
mod read;
mod reasoning;
#[cfg(test)]
mod tests;
mod validate;

use axum::http::HeaderMap;
use bytes::Bytes;

use super::Shared;
use super::chat;
use super::context::View;
use super::protocol::Protocol;
use super::refusal::Refusal;
use super::request::ApiRequest;
use super::respond::{DelayedResponse, object_of, parse, play};

pub(super) use emit::{error_event, stream, to_json};

/// Validates a request and returns the scripted reply.
pub(super) fn create_response(
    shared: &Shared,
    headers: &HeaderMap,
    body: &Bytes,
    request_id: &str,
) -> Result<DelayedResponse, Refusal> {
    chat::check_key(headers)?;
    let value = parse(body)?;
    let fields = object_of(&value)?;
    validate::check(fields, &shared.options)?;
    let converted = read::in_messages_form(fields);
    let view = View::of(ApiRequest(&converted), body.len());
    validate::window(&shared.options, view.tokens())?;
    input::unreadable(&shared.script(), fields)?;
    play(shared, Protocol::Responses, ApiRequest(&converted), &view, request_id)
}
