//! The routes, and the parts that all responses share: an id and a record.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Response};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use futures::StreamExt as _;
use tokio::time::timeout;

use super::cloud::{self, Endpoint};
use super::headers::{ApiHeaders, betas_only, check_headers, check_version};
use super::protocol::Protocol;
use super::record::RecordedRequest;
use super::refusal::Refusal;
use super::respond::{self, DelayedResponse};
use super::{Shared, chat, ids, models, responses};

/// Maximum size of a body in bytes.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Returns the router of one simulator.
pub(crate) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/messages", post(create_message))
        .route("/v1/messages/count_tokens", post(count_tokens))
        .route("/v1/chat/completions", post(create_completion))
        .route("/v1/responses", post(create_response))
        .route("/anthropic/v1/messages", post(create_on_bedrock))
        .route("/anthropic/v1/messages/count_tokens", post(count_on_bedrock))
        .route(
            "/v1/projects/{project}/locations/{location}/publishers/anthropic/models/{model}",
            post(predict),
        )
        .route("/token", post(token))
        .route("/computeMetadata/v1/instance/service-accounts/default/token", get(metadata_token))
        .route("/v1/models", get(list_models))
        .route("/v1/models/{id}", get(get_model))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(shared)
}

async fn create_message(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let reply =
        |headers, body: &Bytes, id: &str| respond::create_message(&shared, headers, body, id);
    handle(&shared, request, reply).await
}

async fn count_tokens(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let reply = |headers, body: &Bytes, id: &str| respond::count_tokens(&shared, headers, body, id);
    handle(&shared, request, reply).await
}

async fn create_on_bedrock(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let reply = |parts: &Parts, body: &Bytes, id: &str| {
        let body = cloud::check_bedrock(parts, body)?;
        respond::create_message(&shared, check_version(&parts.headers)?, &body, id)
    };
    record_and_respond(&shared, request, Protocol::Messages, reply).await
}

async fn count_on_bedrock(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let reply = |parts: &Parts, body: &Bytes, id: &str| {
        let body = cloud::check_bedrock(parts, body)?;
        respond::count_tokens(&shared, check_version(&parts.headers)?, &body, id)
    };
    record_and_respond(&shared, request, Protocol::Messages, reply).await
}

async fn predict(
    State(shared): State<Arc<Shared>>,
    Path((project, location, model)): Path<(String, String, String)>,
    request: Request,
) -> Response<Body> {
    let reply = |parts: &Parts, body: &Bytes, id: &str| {
        let url = (project.as_str(), location.as_str(), model.as_str());
        let (endpoint, body) = cloud::check_vertex(&shared.tokens, url, &parts.headers, body)?;
        let headers = betas_only(&parts.headers)?;
        match endpoint {
            Endpoint::Messages => respond::create_message(&shared, headers, &body, id),
            Endpoint::CountTokens => respond::count_tokens(&shared, headers, &body, id),
        }
    };
    record_and_respond(&shared, request, Protocol::Messages, reply).await
}

async fn token(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    form: Bytes,
) -> Response<Body> {
    cloud::token(&shared.tokens, &headers, &String::from_utf8_lossy(&form))
}

async fn metadata_token(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response<Body> {
    cloud::metadata_token(&shared.tokens, &headers)
}

async fn create_completion(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let protocol = Protocol::Chat { include_usage: false };
    let reply = |parts: &Parts, body: &Bytes, id: &str| {
        chat::create_completion(&shared, &parts.headers, body, id)
    };
    record_and_respond(&shared, request, protocol, reply).await
}

async fn create_response(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let reply = |parts: &Parts, body: &Bytes, id: &str| {
        responses::create_response(&shared, &parts.headers, body, id)
    };
    record_and_respond(&shared, request, Protocol::Responses, reply).await
}

async fn list_models(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let most = shared.options.max_input_tokens;
    handle(&shared, request, |_, _, _| Ok(json(models::list(most)))).await
}

async fn get_model(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    request: Request,
) -> Response<Body> {
    let most = shared.options.max_input_tokens;
    let found = models::find(&name, most).map(json);
    let missing = || Refusal::not_found(format!("model: {name}"));
    handle(&shared, request, |_, _, _| found.ok_or_else(missing)).await
}

async fn no_route(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    handle(&shared, request, |_, _, _| Err(Refusal::not_found("Not found"))).await
}

async fn wrong_method(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    handle(&shared, request, |_, _, _| Err(Refusal::wrong_method())).await
}

/// Checks the headers of a Messages request and answers it.
async fn handle<F>(shared: &Shared, request: Request, reply: F) -> Response<Body>
where
    F: FnOnce(ApiHeaders, &Bytes, &str) -> Result<DelayedResponse, Refusal>,
{
    let reply = |parts: &Parts, body: &Bytes, id: &str| {
        check_headers(&parts.headers).and_then(|checked| reply(checked, body, id))
    };
    record_and_respond(shared, request, Protocol::Messages, reply).await
}

/// Answers a request, records it, and waits for the scripted delay.
async fn record_and_respond<F>(
    shared: &Shared,
    request: Request,
    protocol: Protocol,
    reply: F,
) -> Response<Body>
where
    F: FnOnce(&Parts, &Bytes, &str) -> Result<DelayedResponse, Refusal>,
{
    let arrival = shared.recorder.arrival();
    let id = ids::request();
    let (parts, body) = request.into_parts();
    let (body, result) = match read(&parts.headers, body).await {
        Ok(body) => {
            let result = reply(&parts, &body, &id);
            (body, result)
        }
        Err(refusal) => (Bytes::new(), Err(refusal)),
    };
    let refusal = result.as_ref().err().map(|refusal| refusal.message.clone());
    let DelayedResponse { delay, mut response } =
        result.unwrap_or_else(|refusal| DelayedResponse {
            delay: Duration::ZERO,
            response: (refusal.status, Json(protocol.refusal(&refusal, &id))).into_response(),
        });
    if shared.recorder.is_on() {
        let request = RecordedRequest {
            method: parts.method,
            path: parts.uri.to_string(),
            headers: parts.headers,
            body,
            refusal,
            status: response.status().as_u16(),
        };
        shared.recorder.add(arrival, request);
    }
    if !delay.is_zero() {
        let _ = timeout(delay, shared.stop.cancelled()).await; // a stop cuts the wait short
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(protocol.id_header(), id);
    }
    response
}

async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Refusal> {
    let too_large = || Refusal::too_large("Request exceeds the maximum size");
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if length.is_some_and(|length: usize| length > MAX_BYTES) {
        drain(body).await;
        return Err(too_large());
    }
    to_bytes(body, MAX_BYTES).await.map_err(|_| too_large())
}

/// Reads and discards a body: a client that still writes would miss the response.
async fn drain(body: Body) {
    let mut pieces = body.into_data_stream();
    let mut left = 2 * MAX_BYTES;
    while let Some(Ok(piece)) = pieces.next().await {
        let Some(rest) = left.checked_sub(piece.len()) else {
            break;
        };
        left = rest;
    }
}

fn json(value: serde_json::Value) -> DelayedResponse {
    DelayedResponse { delay: Duration::ZERO, response: Json(value).into_response() }
}
