//! Response headers that many operations share.

use serde_json::Value;
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{Header, Object, OpenApi, Ref, RefOr, Response, Schema, Type};

use super::walk::{operations, own, own_responses};

/// Component name, header, type, description and example.
const HEADERS: [(&str, &str, Type, &str, &str); 7] = [
    (
        "RequestId",
        "x-request-id",
        Type::String,
        "The id of the request: the caller's, or one that the service generated.",
        "req_0193a7c2b8f07d3c9e41f2a6b5c8d7e0",
    ),
    (
        "RateLimitPolicy",
        "ratelimit-policy",
        Type::String,
        "The rate limit, if there is one: 60 requests in 60 seconds.",
        "\"key\";q=60;w=60",
    ),
    (
        "RateLimit",
        "ratelimit",
        Type::String,
        "The remaining requests, and the seconds until one more is allowed.",
        "\"key\";r=59;t=1",
    ),
    (
        "RetryAfter",
        "retry-after",
        Type::Integer,
        "Seconds after which the client should retry.",
        "1",
    ),
    (
        "ShouldRetry",
        "x-should-retry",
        Type::String,
        "`true` if the request had no effect and may succeed later, `false` if it would fail \
         again; absent if the service cannot know.",
        "true",
    ),
    (
        "StreamCaching",
        "cache-control",
        Type::String,
        "Prevents caching and compression of the stream by proxies.",
        "no-cache, no-transform",
    ),
    (
        "StreamBuffering",
        "x-accel-buffering",
        Type::String,
        "Prevents buffering of the stream by proxies.",
        "no",
    ),
];

pub(super) fn complete(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    for (name, _, kind, description, example) in HEADERS {
        let example = if kind == Type::Integer { Value::from(1) } else { Value::from(example) };
        let header = Header::builder()
            .schema(Some(Object::with_type(kind)))
            .description(Some(description))
            .example(Some(example));
        components.headers.insert(name.to_owned(), header.build().into());
    }
    for (name, response) in &mut components.responses {
        let Some(response) = own(response) else { continue };
        add(response, "RequestId");
        if name == "RateLimited" || name == "Unavailable" {
            add(response, "RetryAfter");
            add(response, "ShouldRetry");
        }
    }
    for operation in operations(document) {
        let is_limited = operation.security.is_some();
        for (status, response) in own_responses(operation) {
            add(response, "RequestId");
            if is_limited {
                add(response, "RateLimitPolicy");
                add(response, "RateLimit");
            }
            if response.content.contains_key("text/event-stream") {
                add(response, "StreamCaching");
                add(response, "StreamBuffering");
            }
            if ["409", "429", "503"].contains(&status.as_str()) && is_problem(response) {
                add(response, "RetryAfter");
                add(response, "ShouldRetry");
            }
        }
    }
}

fn is_problem(response: &Response) -> bool {
    response.content.contains_key("application/problem+json")
}

/// Adds a shared header. Removes null from the headers that the response declares itself: a header is
/// present or absent, never null.
fn add(response: &mut Response, name: &str) {
    for header in response.headers.values_mut().filter_map(own) {
        if let Some(RefOr::T(Schema::Object(schema))) = &mut header.schema
            && matches!(schema.schema_type, SchemaType::Array(_))
        {
            schema.schema_type = SchemaType::Type(Type::String);
        }
    }
    let Some((_, header, ..)) = HEADERS.iter().find(|(component, ..)| *component == name) else {
        return;
    };
    let reference = Ref::new(format!("#/components/headers/{name}"));
    response.headers.entry((*header).to_owned()).or_insert(RefOr::Ref(reference));
}
