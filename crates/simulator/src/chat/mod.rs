//! Chat Completions: `POST /v1/chat/completions`, from the same scripts.
//!
//! The module checks a request by the rules of this protocol, converts it to the form of the
//! Messages API, and encodes the reply in this protocol.

mod emit;
mod read;
mod validate;

#[cfg(test)]
mod tests;

use axum::http::HeaderMap;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::context::View;
use super::protocol::Protocol;
use super::refusal::Refusal;
use super::request::ApiRequest;
use super::respond::{DelayedResponse, object_of, parse, play};
use super::script::Script;
use super::{Options, Shared};

pub(super) use emit::{stream, to_json};

/// Validates a request and returns the scripted reply.
pub(super) fn create_completion(
    shared: &Shared,
    headers: &HeaderMap,
    body: &Bytes,
    request_id: &str,
) -> Result<DelayedResponse, Refusal> {
    check_key(headers)?;
    let value = parse(body)?;
    let fields = object_of(&value)?;
    validate::check(fields, &shared.options)?;
    let converted = read::in_messages_form(fields);
    let view = View::of(ApiRequest(&converted), body.len());
    validate::window(&shared.options, fields, view.tokens())?;
    unreadable(&shared.script(), fields)?;
    let options = fields.get("stream_options");
    let include_usage = options.is_some_and(|options| options["include_usage"] == true);
    let protocol = Protocol::Chat { include_usage };
    play(shared, protocol, ApiRequest(&converted), &view, request_id)
}

/// Refuses a request with an image that the script declares unreadable, and names its position.
fn unreadable(script: &Script, fields: &Map<String, Value>) -> Result<(), Refusal> {
    let messages = fields.get("messages").and_then(Value::as_array);
    for (at, message) in messages.into_iter().flatten().enumerate() {
        let parts = message["content"].as_array();
        for (nth, part) in parts.into_iter().flatten().enumerate() {
            let refused = script.unreadable.iter().find(|refused| {
                refused.kind == "image"
                    && part["type"] == "image_url"
                    && refused.contains_text(part)
            });
            if let Some(refused) = refused {
                let param = format!("messages.[{at}].content.[{nth}].image_url");
                let details = json!({ "error_code": "invalid_image_url", "param": param });
                let refusal = Refusal::invalid(refused.message.clone());
                return Err(Refusal { details: Some(details), ..refusal });
            }
        }
    }
    Ok(())
}

/// Checks the bearer token, which both protocols of `OpenAI` have.
pub(super) fn check_key(headers: &HeaderMap) -> Result<(), Refusal> {
    let header = headers.get("authorization").and_then(|value| value.to_str().ok());
    let key = header.and_then(|value| value.strip_prefix("Bearer "));
    if key.is_some_and(|key| !key.trim().is_empty()) {
        return Ok(());
    }
    Err(Refusal::unauthenticated(
        "You didn't provide an API key. You need to provide your API key in an Authorization \
         header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
    ))
}

/// Checks the members that Chat Completions and Responses share.
pub(super) fn check_shared(fields: &Map<String, Value>, options: &Options) -> Result<(), Refusal> {
    validate::shared(fields, options)
}

/// Returns the body of an error. `kind` is an error type of either protocol.
pub(super) fn error_body(kind: &str, message: &str, details: Option<&Value>) -> Value {
    let (kind, code) = match kind {
        "overloaded_error" | "api_error" | "timeout_error" => ("server_error", None),
        "rate_limit_error" => ("requests", Some("rate_limit_exceeded")),
        "billing_error" => ("insufficient_quota", Some("insufficient_quota")),
        "authentication_error" => ("invalid_request_error", Some("invalid_api_key")),
        "not_found_error" => ("invalid_request_error", Some("model_not_found")),
        other => (other, None),
    };
    let code = details.and_then(|details| details["error_code"].as_str()).or(code);
    let param = details.and_then(|details| details.get("param"));
    json!({ "error": { "message": message, "type": kind, "param": param, "code": code } })
}
