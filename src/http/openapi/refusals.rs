//! Responses of middleware in the OpenAPI document: origins, hosts, query parameters and rate limits.

use utoipa::openapi::path::Operation;
use utoipa::openapi::{Header, Object, OpenApi, Ref, RefOr, Response, Type};

use crate::http::auth::{operations, problem};

const FORBIDDEN_ORIGIN: &str = "ForbiddenOrigin";
const INVALID_HOST: &str = "InvalidHost";
const INVALID_REQUEST: &str = "InvalidRequest";
const MISDIRECTED: &str = "MisdirectedRequest";
const RATE_LIMITED: &str = "RateLimited";

/// Adds the responses that operations do not declare themselves. Operations without a key have no
/// rate limit.
pub(in crate::http) fn complete(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    let responses = [
        (FORBIDDEN_ORIGIN, forbidden_origin()),
        (INVALID_HOST, invalid_host()),
        (INVALID_REQUEST, invalid_request()),
        (MISDIRECTED, misdirected()),
        (RATE_LIMITED, rate_limited()),
    ];
    for (name, response) in responses {
        components.responses.insert(name.to_owned(), response.into());
    }
    for item in document.paths.paths.values_mut() {
        for (operation, _) in operations(item) {
            if operation.security.is_some() {
                add_invalid_query(operation);
            }
            add(operation, "400", INVALID_HOST);
            add(operation, "403", FORBIDDEN_ORIGIN);
            add(operation, "421", MISDIRECTED);
            if operation.security.is_some() {
                add(operation, "429", RATE_LIMITED);
            }
        }
    }
}

/// Every operation of the API refuses query parameters that it does not have.
fn add_invalid_query(operation: &mut Operation) {
    add(operation, "400", INVALID_REQUEST);
    if let Some(RefOr::T(response)) = operation.responses.responses.get_mut("400")
        && !response.description.contains("`invalid_query`")
    {
        response.description.push_str(", `invalid_query`");
    }
}

fn add(operation: &mut Operation, status: &str, response: &str) {
    let response = RefOr::Ref(Ref::from_response_name(response));
    operation.responses.responses.entry(status.to_owned()).or_insert(response);
}

fn forbidden_origin() -> Response {
    problem(
        "`forbidden_origin`: a web page of another origin sent the request to a service that \
         requires no keys",
    )
    .build()
}

fn invalid_host() -> Response {
    problem("`invalid_host`: the request has more than one `Host` header").build()
}

fn invalid_request() -> Response {
    problem(
        "`invalid_query`: the request has a query parameter that the operation does not have; \
         `invalid_host`: it has more than one `Host` header",
    )
    .build()
}

fn misdirected() -> Response {
    problem("`misdirected_request`: the `Host` of the request is not a host of this service")
        .build()
}

fn rate_limited() -> Response {
    let header = |kind, text: &str| {
        Header::builder().schema(Some(Object::with_type(kind))).description(Some(text)).build()
    };
    let policy = "The limit: `\"key\";q=60;w=60` means 60 requests in 60 seconds.";
    let left =
        "`\"key\";r=0;t=1`: the remaining requests, and the seconds until one more is allowed.";
    problem("`rate_limited`: the key exceeded its requests per minute")
        .header("retry-after", header(Type::Integer, "Seconds until one more request is allowed."))
        .header("ratelimit-policy", header(Type::String, policy))
        .header("ratelimit", header(Type::String, left))
        .build()
}
