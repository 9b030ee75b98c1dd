//! Null in answers.
//!
//! A member that an answer may lack is left out of it; one that may be null is always there. In the
//! code both are options, which the schemas take for optional and null alike.

use std::collections::BTreeSet;

use serde::Serialize;
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{Object, OpenApi, RefOr, Schema, Type};

use super::schemas::each;
use super::walk::{operations, own};

/// Members that are left out, and for which null is a value of its own.
const BOTH: [(&str, &str); 1] = [("SessionUpdatedEvent", "title")];

/// Takes null from what is left out of answers.
pub(super) fn complete(document: &mut OpenApi) {
    let asked = asked(document);
    let schemas = &mut document.components.get_or_insert_default().schemas;
    for (name, schema) in schemas.iter_mut().filter(|(name, _)| !asked.contains(*name)) {
        let Some(schema) = own(schema) else { continue };
        each(schema, &mut |object| leave_out(name, object));
    }
}

fn leave_out(name: &str, object: &mut Object) {
    let Object { properties, required, .. } = object;
    for (member, schema) in properties {
        if !required.contains(member) && !BOTH.contains(&(name, member)) {
            take_null(schema);
        }
    }
}

fn take_null(described: &mut RefOr<Schema>) {
    match described {
        RefOr::T(Schema::Object(object)) => one_type(&mut object.schema_type),
        RefOr::T(Schema::Array(array)) => one_type(&mut array.schema_type),
        RefOr::T(Schema::OneOf(union)) => {
            if let [one, null] = union.items.as_slice()
                && is_null(null)
            {
                *described = one.clone();
            }
        }
        RefOr::T(_) | RefOr::Ref(_) => {}
    }
}

/// Takes null from a type, if it is one of several.
pub(super) fn one_type(schema_type: &mut SchemaType) {
    if let SchemaType::Array(types) = schema_type {
        let first = types.iter().find(|it| **it != Type::Null).cloned();
        *schema_type = first.map_or(SchemaType::AnyValue, SchemaType::Type);
    }
}

fn is_null(described: &RefOr<Schema>) -> bool {
    let RefOr::T(Schema::Object(object)) = described else { return false };
    matches!(object.schema_type, SchemaType::Type(Type::Null))
}

/// The schemas of requests, and all that they refer to.
pub(super) fn asked(document: &mut OpenApi) -> BTreeSet<String> {
    let mut next: Vec<String> = operations(document)
        .flat_map(|operation| references(&(&operation.request_body, &operation.parameters)))
        .collect();
    let schemas = &document.components.get_or_insert_default().schemas;
    let mut asked = BTreeSet::new();
    while let Some(name) = next.pop() {
        let schema = schemas.get(&name);
        if asked.insert(name) {
            next.extend(schema.map(references).unwrap_or_default());
        }
    }
    asked
}

/// The names of the schemas that are referred to.
pub(super) fn references(described: &impl Serialize) -> Vec<String> {
    let text = serde_json::to_string(described).unwrap_or_default();
    let after = text.split("\"#/components/schemas/").skip(1);
    after.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}
