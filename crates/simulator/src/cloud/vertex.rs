//! Google Cloud: `POST /v1/projects/…/publishers/anthropic/models/MODEL:streamRawPredict`.
//!
//! Source: Google's page "Request predictions with Claude models" and Anthropic's client for Google Cloud
//! (`anthropic.lib.vertex`): the model is part of the URL, and the body names a version instead.

use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use serde_json::{Value, json};

use super::limits::check_features;
use super::{PROJECT, REGION, Tokens};
use crate::refusal::Refusal;
use crate::respond::parse;

/// The size of a request body in bytes. Source: the overview of the API in Anthropic's documentation.
const MAX_BYTES: usize = 30_000_000;
/// The only value of `anthropic_version`.
const VERSION: &str = "vertex-2023-10-16";

/// The endpoint of the Messages API that a URL means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Messages,
    CountTokens,
}

/// Checks the access to a request, and returns its endpoint and its body in the form of the Messages API.
pub(crate) fn check_vertex(
    tokens: &Tokens,
    (project, location, model): (&str, &str, &str),
    headers: &HeaderMap,
    body: &Bytes,
) -> Result<(Endpoint, Bytes), Refusal> {
    if body.len() > MAX_BYTES {
        return Err(Refusal::too_large("Request exceeds the maximum size"));
    }
    let authorization = headers.get("authorization").and_then(|value| value.to_str().ok());
    let token = authorization.and_then(|value| value.strip_prefix("Bearer "));
    if !token.is_some_and(|token| tokens.accepts(token)) {
        return Err(refused(
            StatusCode::UNAUTHORIZED,
            "UNAUTHENTICATED",
            "Request had invalid authentication credentials. Expected OAuth 2 access token, login \
             cookie or other valid authentication credential. See \
             https://developers.google.com/identity/sign-in/web/devconsole-project.",
        ));
    }
    if project != PROJECT {
        let message = format!(
            "Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/\
             projects/{project}'"
        );
        return Err(refused(StatusCode::FORBIDDEN, "PERMISSION_DENIED", &message));
    }
    let unknown = || {
        let message = format!(
            "Publisher Model `projects/{project}/locations/{location}/publishers/anthropic/models/\
             {model}` was not found or your project does not have access to it."
        );
        refused(StatusCode::NOT_FOUND, "NOT_FOUND", &message)
    };
    let (name, method) = model.split_once(':').ok_or_else(unknown)?;
    if location != REGION && location != "global" {
        return Err(unknown());
    }
    let mut value = parse(body)?;
    let counts = name == "count-tokens" && method == "rawPredict";
    check_form(&value, method, counts)?;
    let Value::Object(fields) = &mut value else { return Err(unknown()) };
    check_features(fields, |kind| kind == "web_search_20250305")?;
    fields.shift_remove("anthropic_version");
    let named = if counts { fields["model"].as_str().unwrap_or_default() } else { name };
    let own = named.split_once('@').map_or(named, |(own, _)| own).to_owned();
    fields.insert("model".to_owned(), own.into());
    let endpoint = if counts { Endpoint::CountTokens } else { Endpoint::Messages };
    Ok((endpoint, value.to_string().into()))
}

fn check_form(body: &Value, method: &str, counts: bool) -> Result<(), Refusal> {
    match body["anthropic_version"].as_str() {
        Some(VERSION) => {}
        Some(other) => {
            let message = format!("anthropic_version: \"{other}\" is not a valid version");
            return Err(Refusal::invalid(message));
        }
        None => return Err(Refusal::invalid("anthropic_version: Field required")),
    }
    let has_model = body.get("model").is_some();
    if has_model && !counts {
        return Err(Refusal::invalid("model: Extra inputs are not permitted"));
    }
    if !has_model && counts {
        return Err(Refusal::invalid("model: Field required"));
    }
    let streams = body["stream"] == true;
    match method {
        "streamRawPredict" if streams => Ok(()),
        "rawPredict" if !streams => Ok(()),
        "streamRawPredict" | "rawPredict" => {
            Err(Refusal::invalid(format!("stream: {streams} does not match the method {method}")))
        }
        _ => Err(refused(StatusCode::NOT_FOUND, "NOT_FOUND", "Not found")),
    }
}

/// An error in the form of Google's gateways, which is a list where a stream was requested.
fn refused(status: StatusCode, name: &str, message: &str) -> Refusal {
    let error = json!({ "code": status.as_u16(), "message": message, "status": name });
    Refusal::of_gateway(status, message, json!([{ "error": error }]))
}
