//! Response headers that many operations share.

use serde_json::Value;
use utoipa::openapi::path::{Operation, Parameter};
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{Header, Object, OpenApi, Ref, RefOr, Response, Schema, Type};

use super::walk::{operations, own, own_responses};

/// A response header that many operations share.
struct SharedHeader {
    component: &'static str,
    name: &'static str,
    kind: Type,
    description: &'static str,
    example: &'static str,
}

const HEADERS: [SharedHeader; 8] = [
    SharedHeader {
        component: "RequestId",
        name: "x-request-id",
        kind: Type::String,
        description: "The id of the request: the caller's, or one that the service generated.",
        example: "req_0193a7c2b8f07d3c9e41f2a6b5c8d7e0",
    },
    SharedHeader {
        component: "RateLimitPolicy",
        name: "ratelimit-policy",
        kind: Type::String,
        description: "The rate limit, if there is one: 60 requests in 60 seconds.",
        example: "\"key\";q=60;w=60",
    },
    SharedHeader {
        component: "RateLimit",
        name: "ratelimit",
        kind: Type::String,
        description: "The remaining requests, and the seconds until one more is allowed.",
        example: "\"key\";r=59;t=1",
    },
    SharedHeader {
        component: "RetryAfter",
        name: "retry-after",
        kind: Type::Integer,
        description: "Seconds after which the client should retry.",
        example: "1",
    },
    SharedHeader {
        component: "ShouldRetry",
        name: "x-should-retry",
        kind: Type::String,
        description: "`true` if the request had no effect and may succeed later, `false` if it \
            would fail again; absent if the service cannot know.",
        example: "true",
    },
    SharedHeader {
        component: "ContentTag",
        name: "etag",
        kind: Type::String,
        description: "Identifies the content of the page. With it in `If-None-Match`, the response is \
            304 while the content is the same.",
        example: "\"0b5c8d7e00193a7c2b8f07d3c9e41f2a\"",
    },
    SharedHeader {
        component: "StreamCaching",
        name: "cache-control",
        kind: Type::String,
        description: "Prevents caching and compression of the stream by proxies.",
        example: "private, no-cache, no-store, no-transform",
    },
    SharedHeader {
        component: "StreamBuffering",
        name: "x-accel-buffering",
        kind: Type::String,
        description: "Prevents buffering of the stream by proxies.",
        example: "no",
    },
];

pub(super) fn complete(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    for SharedHeader { component, kind, description, example, .. } in HEADERS {
        let example = if kind == Type::Integer { Value::from(1) } else { Value::from(example) };
        let header = Header::builder()
            .schema(Some(Object::with_type(kind)))
            .description(Some(description))
            .example(Some(example));
        components.headers.insert(component.to_owned(), header.build().into());
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
        add_not_modified(operation);
        add_condition(operation);
        let is_limited = operation.security.is_some();
        for (status, response) in own_responses(operation) {
            add(response, "RequestId");
            if is_page(response) {
                add(response, "ContentTag");
            }
            if is_limited {
                add(response, "RateLimitPolicy");
                add(response, "RateLimit");
            }
            if response.content.contains_key("text/event-stream") {
                add(response, "StreamCaching");
                add(response, "StreamBuffering");
            }
            // Errors of operations with a key may have the form of another protocol.
            let is_error = is_limited || is_problem(response);
            if ["409", "429", "503"].contains(&status.as_str()) && is_error {
                add(response, "RetryAfter");
                add(response, "ShouldRetry");
            }
        }
    }
}

/// Adds the response to a client that has the content of a page already.
fn add_not_modified(operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    let page = responses.get("200");
    if page.is_some_and(|page| matches!(page, RefOr::T(page) if is_page(page))) {
        let description = "The content of the page is the same.";
        let response = Response::builder().description(description).build();
        responses.entry("304".to_owned()).or_insert(response.into());
    }
}

/// Adds the parameter of requests that can be answered with 304.
fn add_condition(operation: &mut Operation) {
    if !operation.responses.responses.contains_key("304") {
        return;
    }
    let parameters = operation.parameters.get_or_insert_default();
    let has_it = |parameter: &RefOr<Parameter>| match parameter {
        RefOr::T(parameter) => parameter.name == "If-None-Match",
        RefOr::Ref(_) => false,
    };
    if !parameters.iter().any(has_it) {
        let reference = Ref::new("#/components/parameters/IfNoneMatch");
        parameters.push(RefOr::Ref(reference));
    }
}

/// Pages of lists link to their neighbours.
fn is_page(response: &Response) -> bool {
    response.headers.contains_key("link")
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
    let Some(header) = HEADERS.iter().find(|header| header.component == name) else { return };
    let reference = Ref::new(format!("#/components/headers/{name}"));
    response.headers.entry(header.name.to_owned()).or_insert(RefOr::Ref(reference));
}
