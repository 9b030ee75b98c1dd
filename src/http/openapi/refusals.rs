//! What the OpenAPI document says of requests that are refused before their handler: by the rules
//! for web pages, and by the limit of requests.

use utoipa::openapi::path::Operation;
use utoipa::openapi::{Header, Object, OpenApi, Ref, RefOr, Response, Type};

use crate::http::auth::{operations, problem};

const FORBIDDEN_ORIGIN: &str = "ForbiddenOrigin";
const MISDIRECTED: &str = "MisdirectedRequest";
const RATE_LIMITED: &str = "RateLimited";

/// Adds to every operation what it does not say itself. Those that need no key have no limit.
pub(in crate::http) fn tell(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    let responses = [
        (FORBIDDEN_ORIGIN, forbidden_origin()),
        (MISDIRECTED, misdirected()),
        (RATE_LIMITED, rate_limited()),
    ];
    for (name, response) in responses {
        components.responses.insert(name.to_owned(), response.into());
    }
    for item in document.paths.paths.values_mut() {
        for (operation, _) in operations(item) {
            add(operation, "403", FORBIDDEN_ORIGIN);
            add(operation, "421", MISDIRECTED);
            if operation.security.is_some() {
                add(operation, "429", RATE_LIMITED);
            }
        }
    }
}

fn add(operation: &mut Operation, status: &str, response: &str) {
    let response = RefOr::Ref(Ref::from_response_name(response));
    operation.responses.responses.entry(status.to_owned()).or_insert(response);
}

fn forbidden_origin() -> Response {
    problem(
        "`forbidden_origin`: a web page of another origin sent the request, and the service asks \
         nobody for a key",
    )
    .build()
}

fn misdirected() -> Response {
    problem("`misdirected_request`: the service does not answer for this host").build()
}

fn rate_limited() -> Response {
    let header = |kind, text: &str| {
        Header::builder().schema(Some(Object::with_type(kind))).description(Some(text)).build()
    };
    let policy = "The limit: `\"key\";q=60;w=60` is 60 requests in 60 seconds.";
    let left = "`\"key\";r=0;t=1`: how many are left, and in how many seconds there is one more.";
    problem("`rate_limited`: more requests of this key in a minute than it may send")
        .header("retry-after", header(Type::Integer, "Seconds until there is one more."))
        .header("ratelimit-policy", header(Type::String, policy))
        .header("ratelimit", header(Type::String, left))
        .build()
}
