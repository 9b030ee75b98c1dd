//! The errors of protocols that have a format of their own.

use utoipa::openapi::{Content, ContentBuilder, OpenApi, Ref, RefOr, Response};

use super::samples::Samples;
use crate::http::auth::operations;
use crate::http::error::ErrorFormat;

const PROBLEM: &str = "application/problem+json";

/// Replaces problem documents in the responses of these protocols, also in those that all operations
/// share.
pub(super) fn complete(document: &mut OpenApi, samples: &Samples) {
    let shared = document.components.get_or_insert_default().responses.clone();
    for (path, item) in &mut document.paths.paths {
        let schema = match ErrorFormat::of(path) {
            ErrorFormat::Problem => continue,
            ErrorFormat::ManagedAgents => "ManagedAgentsError",
            ErrorFormat::OpenAi => "OpenAiError",
        };
        let error = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name(schema)))
            .example(samples.of(schema))
            .build();
        for (operation, _) in operations(item) {
            for response in operation.responses.responses.values_mut() {
                replace(response, &shared, &error);
            }
        }
    }
}

fn replace(
    response: &mut RefOr<Response>,
    shared: &std::collections::BTreeMap<String, RefOr<Response>>,
    error: &Content,
) {
    if let RefOr::Ref(reference) = response {
        let name = reference.ref_location.rsplit('/').next().unwrap_or_default();
        let Some(own @ RefOr::T(_)) = shared.get(name) else { return };
        *response = own.clone();
    }
    let RefOr::T(own) = response else { return };
    if own.content.shift_remove(PROBLEM).is_some() {
        own.content.insert("application/json".to_owned(), RefOr::T(error.clone()));
    }
}
