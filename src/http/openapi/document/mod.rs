//! Parts of the OpenAPI document that apply to many operations, so that handlers do not repeat them.

mod contents;
#[expect(dead_code, reason = "the types only describe deliveries; the store builds them")]
mod deliveries;
mod error_formats;
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
mod unions;
mod walk;
mod webhooks;

use utoipa::openapi::OpenApi;

use samples::Samples;

/// Completes the document that was generated from the handlers.
pub(in crate::http) fn complete(document: &mut OpenApi) {
    let samples = Samples::read();
    webhooks::complete(document, &samples);
    schemas::complete(document);
    events::name(document);
    unions::name(document);
    contents::complete(document);
    openness::complete(document);
    nulls::complete(document);
    parameters::complete(document);
    problems::complete(document, &samples);
    headers::complete(document);
    examples::complete(document, &samples);
    links::complete(document);
    error_formats::complete(document, &samples);
}
