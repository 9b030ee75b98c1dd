//! Headers of answers that are sent wherever they have a place.

use serde_json::Value;
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{Header, Object, OpenApi, Ref, RefOr, Response, Schema, Type};

use super::walk::{operations, own, own_responses};

/// Name of the component, header, type, what it is, an example.
const HEADERS: [(&str, &str, Type, &str, &str); 7] = [
    (
        "RequestId",
        "x-request-id",
        Type::String,
        "The request's id: the caller's, or one that the service made up.",
        "req_0193a7c2b8f07d3c9e41f2a6b5c8d7e0",
    ),
    (
        "RateLimitPolicy",
        "ratelimit-policy",
        Type::String,
        "The limit, where there is one: 60 requests in 60 seconds.",
        "\"key\";q=60;w=60",
    ),
    (
        "RateLimit",
        "ratelimit",
        Type::String,
        "How many requests are left, and in how many seconds there is one more.",
        "\"key\";r=59;t=1",
    ),
    (
        "RetryAfter",
        "retry-after",
        Type::Integer,
        "Seconds after which it is worth to come back.",
        "1",
    ),
    (
        "ShouldRetry",
        "x-should-retry",
        Type::String,
        "`true` where nothing was done and the same request may succeed later, `false` where it \
         would fail again; absent where the service cannot know.",
        "true",
    ),
    (
        "StreamCaching",
        "cache-control",
        Type::String,
        "Nothing on the way keeps a stream, or compresses it.",
        "no-cache, no-transform",
    ),
    (
        "StreamBuffering",
        "x-accel-buffering",
        Type::String,
        "Nothing on the way holds a stream back.",
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

/// Adds a shared header, and takes null from those that the response describes itself: a header is
/// there or not.
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
