//! The schemas of events: one named schema for each type, with `type` as the discriminator.
//!
//! In the code an event is an envelope around a body. Client generators produce better types from
//! one plain object per event type.

use std::collections::BTreeMap;

use utoipa::openapi::schema::Discriminator;
use utoipa::openapi::{Object, OneOf, OneOfBuilder, OpenApi, Ref, RefOr, Schema};

use super::unions::{camel, tag_of};

type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Names the schemas of events, previews and farewells.
pub(super) fn name(document: &mut OpenApi) {
    let schemas = &mut document.components.get_or_insert_default().schemas;
    let envelope = envelope(schemas);
    let mut events = lift(schemas, "EventBody", envelope.as_ref());
    replace(schemas, "Event", &events);
    for part in ["Preview", "Farewell"] {
        events.extend(lift(schemas, part, None));
    }
    replace(schemas, "Streamed", &events);
}

/// Replaces a component by the union of these parts.
fn replace(schemas: &mut Schemas, name: &str, parts: &[(String, String)]) {
    let description = description(schemas, name);
    schemas.insert(name.to_owned(), union(parts, description));
}

/// The members that all events share.
fn envelope(schemas: &Schemas) -> Option<Object> {
    let Some(RefOr::T(Schema::AllOf(event))) = schemas.get("Event") else { return None };
    event.items.iter().find_map(|part| match part {
        RefOr::T(Schema::Object(object)) => Some(object.clone()),
        RefOr::T(_) | RefOr::Ref(_) => None,
    })
}

fn description(schemas: &Schemas, name: &str) -> Option<String> {
    match schemas.get(name) {
        Some(RefOr::T(Schema::OneOf(union))) => union.description.clone(),
        Some(RefOr::T(Schema::AllOf(event))) => event.description.clone(),
        _ => None,
    }
}

/// Moves the parts of a union into named schemas. Returns the type and the name of each.
fn lift(schemas: &mut Schemas, union: &str, envelope: Option<&Object>) -> Vec<(String, String)> {
    let Some(RefOr::T(Schema::OneOf(OneOf { items, .. }))) = schemas.remove(union) else {
        return Vec::new();
    };
    let parts = items.into_iter().filter_map(|item| match item {
        RefOr::T(Schema::Object(part)) => Some((tag_of(&part)?, part)),
        RefOr::T(_) | RefOr::Ref(_) => None,
    });
    let named = parts.map(|(tag, mut part)| {
        if let Some(envelope) = envelope {
            part.properties.extend(envelope.properties.clone());
            part.required.extend(envelope.required.iter().cloned());
        }
        let name = schema_name(&tag);
        schemas.insert(name.clone(), Schema::Object(part).into());
        (tag, name)
    });
    named.collect()
}

/// `session.status_idle` is a `SessionStatusIdleEvent`, `event_delta` an `EventDelta`.
fn schema_name(tag: &str) -> String {
    let name = camel(tag);
    if tag.contains('.') { format!("{name}Event") } else { name }
}

fn union(parts: &[(String, String)], description: Option<String>) -> RefOr<Schema> {
    let mut tags = Discriminator::new("type");
    let mut union = OneOfBuilder::new().description(description);
    for (tag, name) in parts {
        let reference = Ref::from_schema_name(name);
        tags.mapping.insert(tag.clone(), reference.ref_location.clone());
        union = union.item(reference);
    }
    Schema::OneOf(union.discriminator(Some(tags)).build()).into()
}
