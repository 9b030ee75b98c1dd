//! Amazon Bedrock: `POST /anthropic/v1/messages`, with a signature or a bearer token.

use axum::http::StatusCode;
use axum::http::request::Parts;
use bytes::Bytes;
use serde_json::{Value, json};

use super::limits::check_features;
use super::signature;
use crate::refusal::Refusal;
use crate::respond::{object_of, parse};

/// The size of a request body in bytes. Source: the overview of the API in Anthropic's documentation.
const MAX_BYTES: usize = 20_000_000;

/// Checks the access to a request, and returns its body with the name of the model in Anthropic's own API.
pub(crate) fn check_bedrock(parts: &Parts, body: &Bytes) -> Result<Bytes, Refusal> {
    if body.len() > MAX_BYTES {
        return Err(Refusal::too_large("Request exceeds the maximum size"));
    }
    let authorization = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
    let bearer = authorization.and_then(|value| value.strip_prefix("Bearer "));
    match bearer {
        Some(key) if !key.trim().is_empty() => {}
        Some(_) => {
            return Err(refused("Invalid API Key format: Must start with pre-defined prefix"));
        }
        None => signature::verify(&parts.method, &parts.uri, &parts.headers, body)
            .map_err(|reason| refused(&reason))?,
    }
    let mut value = parse(body)?;
    check_features(object_of(&value)?, |_| false)?;
    let name = value.get("model").and_then(Value::as_str).unwrap_or_default();
    // Ids of models begin with the vendor's name.
    let Some(own) = name.strip_prefix("anthropic.") else {
        return Err(Refusal::not_found(format!("The model '{name}' does not exist")));
    };
    let own = own.to_owned();
    if let Value::Object(fields) = &mut value {
        fields.insert("model".to_owned(), own.into());
    }
    Ok(value.to_string().into())
}

/// 403 in the form of the gateways of AWS.
fn refused(message: &str) -> Refusal {
    Refusal::of_gateway(StatusCode::FORBIDDEN, message, json!({ "message": message }))
}
