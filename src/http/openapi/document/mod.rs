//! What the OpenAPI document says of all operations alike: said here once, and not by each handler.

mod contents;
#[expect(dead_code, reason = "for the document; deliveries are put together elsewhere")]
mod deliveries;
mod events;
mod examples;
mod headers;
mod links;
mod nulls;
mod openness;
mod parameters;
mod problems;
mod samples;
mod schemas;
mod webhooks;

use utoipa::openapi::path::Operation;
use utoipa::openapi::{OpenApi, RefOr, Response};

use crate::http::auth;
use samples::Samples;

/// Completes what the handlers and the layers before them say.
pub(in crate::http) fn complete(document: &mut OpenApi) {
    let samples = Samples::read();
    webhooks::complete(document, &samples);
    schemas::complete(document);
    events::name(document);
    contents::complete(document);
    openness::complete(document);
    nulls::complete(document);
    parameters::complete(document);
    problems::complete(document, &samples);
    headers::complete(document);
    examples::complete(document, &samples);
    links::complete(document);
}

fn operations(document: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    let items = document.paths.paths.values_mut();
    items.flat_map(|item| auth::operations(item).map(|(operation, _)| operation))
}

/// The responses that an operation describes itself, by status.
fn own_responses(operation: &mut Operation) -> impl Iterator<Item = (&String, &mut Response)> {
    let all = operation.responses.responses.iter_mut();
    all.filter_map(|(status, response)| Some((status, own(response)?)))
}

/// What is said here, and not referred to.
fn own<T>(described: &mut RefOr<T>) -> Option<&mut T> {
    match described {
        RefOr::T(own) => Some(own),
        RefOr::Ref(_) => None,
    }
}
