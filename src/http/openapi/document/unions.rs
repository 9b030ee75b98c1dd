//! The parts of tagged unions: one named schema for each.
//!
//! Client generators name an inline part after its position, such as `Block_type_3`. Some leave out
//! unions with inline parts that refer to other schemas or contain objects.

use std::mem;

use utoipa::openapi::{Object, OpenApi, Ref, RefOr, Schema};

/// Moves the inline parts of each union into schemas that are named after the union and the tag, such
/// as `BlockText`.
pub(super) fn name(document: &mut OpenApi) {
    let schemas = &mut document.components.get_or_insert_default().schemas;
    let mut named = Vec::new();
    for (union, schema) in schemas.iter_mut() {
        let RefOr::T(Schema::OneOf(one)) = schema else { continue };
        for part in &mut one.items {
            let Some(tag) = part_tag(part) else { continue };
            let name = format!("{union}{}", camel(&tag));
            let reference = RefOr::Ref(Ref::from_schema_name(&name));
            named.push((name, mem::replace(part, reference)));
        }
    }
    schemas.extend(named);
}

/// The tag of an inline part, which may consist of several schemas.
fn part_tag(part: &RefOr<Schema>) -> Option<String> {
    match part {
        RefOr::T(Schema::Object(object)) => tag_of(object),
        RefOr::T(Schema::AllOf(all)) => all.items.iter().find_map(part_tag),
        RefOr::T(_) | RefOr::Ref(_) => None,
    }
}

/// The only value of `type`.
pub(super) fn tag_of(part: &Object) -> Option<String> {
    let Some(RefOr::T(Schema::Object(tag))) = part.properties.get("type") else { return None };
    tag.enum_values.as_ref()?.first()?.as_str().map(str::to_owned)
}

/// A tag as a part of a name: `event_delta` becomes `EventDelta`.
pub(super) fn camel(tag: &str) -> String {
    let words = tag.split(['.', '_']).flat_map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        [first.to_ascii_uppercase(), rest.to_owned()]
    });
    words.collect()
}
