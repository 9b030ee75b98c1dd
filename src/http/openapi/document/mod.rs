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
mod walk;
mod webhooks;

use utoipa::openapi::OpenApi;

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
