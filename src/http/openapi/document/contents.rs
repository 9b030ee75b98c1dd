//! Blocks of content in answers.
//!
//! They are what the model and the client wrote, byte for byte, and may be of types that nobody
//! knows yet: what holds for all of them is little, but what a front end shows is known.

use std::collections::BTreeMap;

use serde_json::Value;
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, ObjectBuilder};
use utoipa::openapi::{Object, OpenApi, Ref, RefOr, Schema, Type};

use super::schemas::object;

const BLOCK: &str = "ContentBlock";
const TEXT: &str = "TextBlock";

/// The schemas whose `content` is made of blocks, and which blocks these are.
const OWNERS: [(&str, &str); 6] = [
    ("AgentMessageEvent", TEXT),
    ("AgentThinkingEvent", TEXT),
    ("AgentToolResultEvent", TEXT),
    ("HistoryMessage", BLOCK),
    ("UserCustomToolResultEvent", BLOCK),
    ("UserMessageEvent", BLOCK),
];

/// Says of the blocks of answers what they have.
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
    let kind = kind.description(Some("Such as `text`, `image`, `thinking` or `tool_use`."));
    let text = ObjectBuilder::new().schema_type(Type::String);
    let text = text.description(Some("The text of a block of the type `text`."));
    open("A block of content. What else it has depends on its `type`.")
        .property("type", kind)
        .required("type")
        .property("text", text)
        .build()
}

fn text_block() -> Object {
    let kind = ObjectBuilder::new().schema_type(Type::String);
    let kind = kind.enum_values(Some([Value::from("text")]));
    let text = ObjectBuilder::new().schema_type(Type::String);
    open("A block of text.")
        .property("type", kind)
        .required("type")
        .property("text", text.description(Some("The text.")))
        .required("text")
        .build()
}

/// An object that may have other members.
fn open(description: &str) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(description))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)))
}
