//! Additional members: forbidden in requests, allowed in responses.
//!
//! The service refuses requests with unknown members, so their schemas forbid them. Responses may
//! get new members at any time, so their schemas allow them. A schema that occurs in both gets a
//! second, open version for responses.

use std::collections::BTreeSet;

use utoipa::openapi::schema::{AdditionalProperties, AnyOf};
use utoipa::openapi::{OpenApi, RefOr, Schema};

use super::nulls::{references, request_schemas};
use super::schemas::each;
use super::walk::own;

/// The suffix of the names of open versions.
const RESPONSE_SUFFIX: &str = "Answer";

/// Allows additional members in the schemas of responses.
pub(super) fn complete(document: &mut OpenApi) {
    let requests = request_schemas(document);
    let schemas = &mut document.components.get_or_insert_default().schemas;
    let mut closed: BTreeSet<String> = BTreeSet::new();
    // A schema that refers to a closed one needs an open version as well.
    loop {
        let more = requests.iter().filter(|name| !closed.contains(*name)).filter(|name| {
            let schema = schemas.get(*name);
            let is_closed = schema.is_some_and(is_closed);
            is_closed
                || schema.is_some_and(|it| references(it).iter().any(|to| closed.contains(to)))
        });
        let more: Vec<String> = more.cloned().collect();
        if more.is_empty() {
            break;
        }
        closed.extend(more);
    }
    let mut next: Vec<String> =
        schemas.keys().filter(|name| !requests.contains(*name)).cloned().collect();
    let mut opened = BTreeSet::new();
    while let Some(name) = next.pop() {
        let Some(schema) = schemas.get(&name) else { continue };
        let refers = references(schema).into_iter().filter(|to| closed.contains(to));
        next.extend(refers.filter(|to| opened.insert(to.clone())));
        let mut schema = referring_to_open(schema, &closed);
        if let Some(own) = own(&mut schema) {
            open(own);
        }
        if requests.contains(&name) {
            schemas.insert(format!("{name}{RESPONSE_SUFFIX}"), any_of_open(schema));
        } else {
            schemas.insert(name, schema);
        }
    }
}

fn is_closed(schema: &RefOr<Schema>) -> bool {
    let mut schema = schema.clone();
    let mut is_closed = false;
    if let Some(schema) = own(&mut schema) {
        each(schema, &mut |object| {
            let others = object.additional_properties.as_deref();
            is_closed |= matches!(others, Some(AdditionalProperties::FreeForm(false)));
        });
    }
    is_closed
}

fn open(schema: &mut Schema) {
    each(schema, &mut |object| {
        let others = object.additional_properties.as_deref();
        if matches!(others, Some(AdditionalProperties::FreeForm(false))) {
            object.additional_properties = None;
        }
    });
}

/// An object that allows additional members may match the schemas of several variants, unless all of
/// them are objects, which then differ in a tag.
fn any_of_open(schema: RefOr<Schema>) -> RefOr<Schema> {
    let RefOr::T(Schema::OneOf(one_of)) = schema else { return schema };
    let references = one_of.items.iter().filter(|item| matches!(item, RefOr::Ref(_))).count();
    if references < 2 || references == one_of.items.len() {
        return Schema::OneOf(one_of).into();
    }
    let mut any_of = AnyOf::new();
    any_of.items = one_of.items;
    any_of.description = one_of.description;
    Schema::AnyOf(any_of).into()
}

/// A copy of a schema that refers to the open versions.
fn referring_to_open(schema: &RefOr<Schema>, closed: &BTreeSet<String>) -> RefOr<Schema> {
    if !references(schema).iter().any(|to| closed.contains(to)) {
        return schema.clone();
    }
    let mut text = serde_json::to_string(schema).unwrap_or_default();
    for name in closed {
        let [from, to] = [name.as_str(), &format!("{name}{RESPONSE_SUFFIX}")]
            .map(|name| format!("\"#/components/schemas/{name}\""));
        text = text.replace(&from, &to);
    }
    serde_json::from_str(&text).unwrap_or_else(|_| schema.clone())
}
