//! The errors of the protocol of Claude Managed Agents, which has an envelope of its own.

use utoipa::openapi::{Content, ContentBuilder, OpenApi, Ref, RefOr, Response};

use super::samples::Samples;
use crate::http::auth::operations;
use crate::http::error::ErrorFormat;

const SCHEMA: &str = "ManagedAgentsError";
const PROBLEM: &str = "application/problem+json";

/// Replaces problem documents in the responses of the protocol, also in those that all operations share.
pub(super) fn complete(document: &mut OpenApi, samples: &Samples) {
    let shared = document.components.get_or_insert_default().responses.clone();
    let envelope = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name(SCHEMA)))
        .example(samples.of(SCHEMA))
        .build();
    for (path, item) in &mut document.paths.paths {
        if ErrorFormat::of(path) != ErrorFormat::ManagedAgents {
            continue;
        }
        for (operation, _) in operations(item) {
            for response in operation.responses.responses.values_mut() {
                replace(response, &shared, &envelope);
            }
        }
    }
}

fn replace(
    response: &mut RefOr<Response>,
    shared: &std::collections::BTreeMap<String, RefOr<Response>>,
    envelope: &Content,
) {
    if let RefOr::Ref(reference) = response {
        let name = reference.ref_location.rsplit('/').next().unwrap_or_default();
        let Some(own @ RefOr::T(_)) = shared.get(name) else { return };
        *response = own.clone();
    }
    let RefOr::T(own) = response else { return };
    if own.content.shift_remove(PROBLEM).is_some() {
        own.content.insert("application/json".to_owned(), RefOr::T(envelope.clone()));
    }
}
