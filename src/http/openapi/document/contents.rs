//! The schemas of content blocks in responses.
//!
//! Content blocks are stored byte for byte and may have types that this version does not know. The
//! schemas describe the members that front ends show.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, ObjectBuilder};
use utoipa::openapi::{Object, OpenApi, Ref, RefOr, Schema, Type};

use super::schemas::object;

const BLOCK: &str = "ContentBlock";
const TEXT: &str = "TextBlock";

/// The schemas with a `content` of blocks, and the schema of these blocks.
const OWNERS: [(&str, &str); 6] = [
    ("AgentMessageEvent", TEXT),
    ("AgentThinkingEvent", TEXT),
    ("AgentToolResultEvent", TEXT),
    ("HistoryMessage", BLOCK),
    ("UserCustomToolResultEvent", BLOCK),
    ("UserMessageEvent", BLOCK),
];

/// Adds the schemas of blocks, and refers to them.
pub(super) fn complete(document: &mut OpenApi) {
    let schemas = &mut document.components.get_or_insert_default().schemas;
    schemas.insert(BLOCK.to_owned(), Schema::Object(block()).into());
    schemas.insert(TEXT.to_owned(), Schema::Object(text_block()).into());
    for (owner, item) in OWNERS {
        name_items(schemas, owner, item);
    }
}

fn name_items(schemas: &mut BTreeMap<String, RefOr<Schema>>, owner: &str, item: &str) {
    if let Some(owner) = object(schemas, owner)
        && let Some(RefOr::T(Schema::Array(content))) = owner.properties.get_mut("content")
    {
        let item = RefOr::Ref(Ref::from_schema_name(item));
        content.items = ArrayItems::RefOrSchema(Box::new(item));
    }
}

fn block() -> Object {
    let kind = ObjectBuilder::new().schema_type(Type::String);
    let kind = kind.description(Some(
        "The type of the block, such as `text`, `image`, `thinking` or `tool_use`.",
    ));
    let text = ObjectBuilder::new().schema_type(Type::String);
    let text = text.description(Some("The text, in blocks of type `text`."));
    open("A content block. Its other members depend on its `type`.")
        .property("type", kind)
        .required("type")
        .property("text", text)
        .build()
}

fn text_block() -> Object {
    let kind = ObjectBuilder::new().schema_type(Type::String);
    let kind = kind.enum_values(Some([Value::from("text")]));
    let text = ObjectBuilder::new().schema_type(Type::String);
    open("A text block.")
        .property("type", kind)
        .required("type")
        .property("text", text.description(Some("The text.")))
        .required("text")
        .build()
}

/// An object with additional members.
fn open(description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(description))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)))
}
