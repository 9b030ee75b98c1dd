//! Corrections to all generated schemas.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, SchemaType};
use utoipa::openapi::{Object, OpenApi, Ref, RefOr, Schema, Type};

use super::walk::{operations, own};

pub(super) fn complete(document: &mut OpenApi) {
    let components = document.components.get_or_insert_default();
    name_items(&mut components.schemas);
    for schema in components.schemas.values_mut().filter_map(own) {
        each(schema, &mut |object| {
            open(object);
            tag(object);
        });
    }
    for operation in operations(document) {
        operation.request_body.iter_mut().filter_map(own).for_each(not_null);
    }
}

/// Removes null from an optional body: it is present or absent.
fn not_null(body: &mut RequestBody) {
    for content in body.content.values_mut().filter_map(own) {
        if let Some(RefOr::T(Schema::OneOf(one))) = &content.schema
            && let Some(item) = one.items.iter().find(|item| matches!(item, RefOr::Ref(_)))
        {
            content.schema = Some(item.clone());
        }
    }
}

/// Replaces the inlined item schemas of pages by references to named schemas.
fn name_items(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    let mut items = Vec::new();
    for (name, page) in schemas.iter_mut() {
        let (Some(item), RefOr::T(Schema::Object(page))) = (name.strip_prefix("Page_"), page)
        else {
            continue;
        };
        if let Some(RefOr::T(Schema::Array(data))) = page.properties.get_mut("data")
            && let ArrayItems::RefOrSchema(schema) = &mut data.items
        {
            let named = Box::new(RefOr::Ref(Ref::from_schema_name(item)));
            items.push((item.to_owned(), *std::mem::replace(schema, named)));
        }
    }
    for (name, schema) in items {
        schemas.entry(name).or_insert(schema);
    }
}

/// Visits all objects of a schema.
pub(super) fn each(schema: &mut Schema, visit: &mut impl FnMut(&mut Object)) {
    match schema {
        Schema::Object(object) => {
            visit(object);
            object.properties.values_mut().filter_map(own).for_each(|it| each(it, visit));
            let others = object.additional_properties.as_deref_mut();
            if let Some(AdditionalProperties::RefOr(RefOr::T(others))) = others {
                each(others, visit);
            }
        }
        Schema::Array(array) => {
            if let ArrayItems::RefOrSchema(items) = &mut array.items
                && let Some(items) = own(items)
            {
                each(items, visit);
            }
        }
        Schema::OneOf(one) => one.items.iter_mut().filter_map(own).for_each(|it| each(it, visit)),
        Schema::AllOf(all) => all.items.iter_mut().filter_map(own).for_each(|it| each(it, visit)),
        Schema::AnyOf(any) => any.items.iter_mut().filter_map(own).for_each(|it| each(it, visit)),
        _ => {}
    }
}

/// Allows any member in an object without properties. Client generators would otherwise assume that
/// it has none.
fn open(object: &mut Object) {
    let is_object = is_of(&object.schema_type, &Type::Object);
    if is_object && object.properties.is_empty() && object.additional_properties.is_none() {
        object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(true)));
    }
}

fn is_of(schema_type: &SchemaType, wanted: &Type) -> bool {
    match schema_type {
        SchemaType::Type(one) => one == wanted,
        SchemaType::Array(several) => several.contains(wanted),
        SchemaType::AnyValue => false,
    }
}

/// Makes the `type` of a resource a constant, which its description names.
fn tag(object: &mut Object) {
    let Some(RefOr::T(Schema::Object(tag))) = object.properties.get_mut("type") else { return };
    let words = tag.description.as_deref().unwrap_or_default();
    let word = words.strip_prefix('`').and_then(|rest| rest.strip_suffix("`."));
    if let Some(word) = word
        && tag.enum_values.is_none()
    {
        tag.enum_values = Some(vec![Value::from(word)]);
    }
}

/// The object schema with a name.
pub(super) fn object<'a>(
    schemas: &'a mut BTreeMap<String, RefOr<Schema>>,
    name: &str,
) -> Option<&'a mut Object> {
    if let RefOr::T(Schema::Object(object)) = schemas.get_mut(name)? { Some(object) } else { None }
}
