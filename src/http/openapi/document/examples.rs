//! Examples of request and response bodies.

use utoipa::openapi::content::Content;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::{OpenApi, Ref, RefOr};

use super::samples::Samples;
use super::walk::{operations, own, own_responses};

/// Adds an example to every body, except problems.
pub(super) fn complete(document: &mut OpenApi, samples: &Samples) {
    let mut shown = Vec::new();
    for operation in operations(document) {
        if let Some(RefOr::T(body)) = &mut operation.request_body {
            for (media_type, content) in &mut body.content {
                show(content, media_type, samples, &mut shown);
            }
        }
        for (_, response) in own_responses(operation) {
            for (media_type, content) in &mut response.content {
                show(content, media_type, samples, &mut shown);
            }
        }
    }
    let examples = &mut document.components.get_or_insert_default().examples;
    for name in shown {
        let example = ExampleBuilder::new().value(samples.of(&name)).build();
        examples.insert(name, example.into());
    }
}

/// Adds an example to a body, and records the shared examples that it refers to.
fn show(
    content: &mut RefOr<Content>,
    media_type: &str,
    samples: &Samples,
    shown: &mut Vec<String>,
) {
    let Some(content) = own(content) else { return };
    match schema_name(content) {
        Some(name) if samples.of(&name).is_some() => {
            let reference = Ref::new(format!("#/components/examples/{name}"));
            content.examples.insert(name.clone(), RefOr::Ref(reference));
            shown.push(name);
        }
        Some(_) => {}
        None => content.example = samples.text(media_type),
    }
}

/// The name of the schema of a body.
fn schema_name(content: &Content) -> Option<String> {
    match content.schema.as_ref()? {
        RefOr::Ref(schema) => schema.ref_location.rsplit('/').next().map(str::to_owned),
        RefOr::T(_) => None,
    }
}
