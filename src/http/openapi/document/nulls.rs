//! Null in response schemas.
//!
//! A member of a response is either optional and never null, or required and nullable. In the code
//! both are an `Option`, for which utoipa generates schemas that are optional and nullable.

use std::collections::BTreeSet;

use serde::Serialize;
use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{Object, OpenApi, RefOr, Schema, Type};

use super::schemas::each;
use super::walk::{operations, own};

/// Members that are both optional and nullable.
const BOTH: [(&str, &str); 1] = [("SessionUpdatedEvent", "title")];

/// Removes null from the optional members of responses, as a type and as a default.
pub(super) fn complete(document: &mut OpenApi) {
    let request_schemas = request_schemas(document);
    let schemas = &mut document.components.get_or_insert_default().schemas;
    for (name, schema) in schemas.iter_mut().filter(|(name, _)| !request_schemas.contains(*name)) {
        let Some(schema) = own(schema) else { continue };
        each(schema, &mut |object| make_optional(name, object));
    }
}

fn make_optional(name: &str, object: &mut Object) {
    let Object { properties, required, .. } = object;
    for (member, schema) in properties {
        if !required.contains(member) && !BOTH.contains(&(name, member)) {
            remove_null(schema);
            remove_null_default(schema);
        }
    }
}

fn remove_null(described: &mut RefOr<Schema>) {
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

/// Removes null from a type of several alternatives.
pub(super) fn one_type(schema_type: &mut SchemaType) {
    if let SchemaType::Array(types) = schema_type {
        let first = types.iter().find(|it| **it != Type::Null).cloned();
        *schema_type = first.map_or(SchemaType::AnyValue, SchemaType::Type);
    }
}

/// Removes a default of null, which a member that is never null cannot have.
fn remove_null_default(described: &mut RefOr<Schema>) {
    let default = match described {
        RefOr::T(Schema::Object(object)) => &mut object.default,
        RefOr::T(Schema::Array(array)) => &mut array.default,
        RefOr::T(_) | RefOr::Ref(_) => return,
    };
    default.take_if(|value| value.is_null());
}

fn is_null(described: &RefOr<Schema>) -> bool {
    let RefOr::T(Schema::Object(object)) = described else { return false };
    matches!(object.schema_type, SchemaType::Type(Type::Null))
}

/// The schemas of requests, and all schemas that they refer to.
pub(super) fn request_schemas(document: &mut OpenApi) -> BTreeSet<String> {
    let mut next: Vec<String> = operations(document)
        .flat_map(|operation| references(&(&operation.request_body, &operation.parameters)))
        .collect();
    let schemas = &document.components.get_or_insert_default().schemas;
    let mut request_schemas = BTreeSet::new();
    while let Some(name) = next.pop() {
        let schema = schemas.get(&name);
        if request_schemas.insert(name) {
            next.extend(schema.map(references).unwrap_or_default());
        }
    }
    request_schemas
}

/// The names of the referenced schemas.
pub(super) fn references(described: &impl Serialize) -> Vec<String> {
    let text = serde_json::to_string(described).unwrap_or_default();
    let after = text.split("\"#/components/schemas/").skip(1);
    after.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}
