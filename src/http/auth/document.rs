//! Authentication in the OpenAPI document.

use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    Content, Header, Object, OpenApi, PathItem, Ref, RefOr, Response, ResponseBuilder, Type,
};

use super::caller::API_KEY;
use super::ticket::{TICKET, is_stream};

const UNAUTHENTICATED: &str = "Unauthenticated";
const FORBIDDEN: &str = "Forbidden";
const METRICS_KEY: &str = "metrics_key";

/// Adds the security schemes and the responses `401` and `403` to every operation.
pub(in crate::http) fn secure(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An API key, or a token (JWT) of the trusted identity provider."));
    let bearer = SecurityScheme::Http(bearer.build());
    let header = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new(API_KEY)));
    components.add_security_scheme("bearer", bearer);
    components.add_security_scheme("api_key", header);
    let query = SecurityScheme::ApiKey(ApiKey::Query(ApiKeyValue::new(TICKET)));
    components.add_security_scheme("ticket", query);
    components.responses.insert(UNAUTHENTICATED.to_owned(), unauthenticated().into());
    components.responses.insert(FORBIDDEN.to_owned(), forbidden().into());
    for (path, item) in &mut document.paths.paths {
        for (operation, _) in operations(item) {
            let ways = ["bearer", "api_key"].into_iter().chain(is_stream(path).then_some("ticket"));
            let requirement = |name| SecurityRequirement::new(name, [""; 0]);
            operation.security = Some(ways.map(requirement).collect());
            refuse(operation, "401", UNAUTHENTICATED);
            refuse(operation, "403", FORBIDDEN);
        }
    }
}

/// Declares that the remaining operations, which have no security requirement yet, need no API key.
/// Metrics may have a key of their own.
pub(in crate::http) fn declare_open(document: &mut OpenApi) {
    let metrics = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("The key of the operator in `TWOSTEP_METRICS_KEY`."));
    let components = document.components.get_or_insert_default();
    components.add_security_scheme(METRICS_KEY, SecurityScheme::Http(metrics.build()));
    let webhooks = document.webhooks.iter_mut().flat_map(|webhooks| &mut webhooks.paths);
    for (path, item) in document.paths.paths.iter_mut().chain(webhooks) {
        for (operation, _) in operations(item) {
            operation.security.get_or_insert_with(|| match path.as_str() {
                "/metrics" => vec![
                    SecurityRequirement::default(),
                    SecurityRequirement::new(METRICS_KEY, [""; 0]),
                ],
                _ => Vec::new(),
            });
        }
    }
}

/// The operations of a path; `true` for those that need the scope `write`.
pub(in crate::http) fn operations(
    item: &mut PathItem,
) -> impl Iterator<Item = (&mut Operation, bool)> {
    let PathItem { get, head, put, post, delete, options, patch, trace, query, .. } = item;
    let reading = [get, head].map(|operation| (operation, false));
    let writing = [put, post, delete, options, patch, trace, query].map(|one| (one, true));
    let all = reading.into_iter().chain(writing);
    all.filter_map(|(operation, writes)| Some((operation.as_mut()?, writes)))
}

fn refuse(operation: &mut Operation, status: &str, response: &str) {
    let response = RefOr::Ref(Ref::from_response_name(response));
    operation.responses.responses.insert(status.to_owned(), response);
}

fn unauthenticated() -> Response {
    let challenge = Header::builder()
        .schema(Some(Object::with_type(Type::String)))
        .description(Some("`Bearer`"))
        .build();
    problem("`unauthenticated`: the key or token is missing, unknown, expired or revoked")
        .header("www-authenticate", challenge)
        .build()
}

fn forbidden() -> Response {
    problem(
        "`forbidden`: the key lacks the scope `write`, or the token has no known scope; \
         `forbidden_origin`: a web page of another origin sent the request to a service that \
         requires no keys",
    )
    .build()
}

/// A response with a problem document.
pub(in crate::http) fn problem(description: &str) -> ResponseBuilder {
    let schema = Ref::from_schema_name("Problem");
    ResponseBuilder::new()
        .description(description)
        .content("application/problem+json", Content::new(Some(schema)))
}
