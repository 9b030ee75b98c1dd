//! Content blocks in the format of the Messages API, from the parts of a reply.

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::domain::call_syntax::{is_word, shown};
use crate::model::error::ModelError;
use crate::model::input::as_input;

/// The maximum length of a tool's name in `OpenAI`'s protocols.
const MAX_NAME: usize = 64;

/// A text block.
pub(super) fn text(text: &str) -> Result<Box<RawValue>, ModelError> {
    #[derive(Serialize)]
    struct Block<'a> {
        r#type: &'static str,
        text: &'a str,
    }
    raw(&Block { r#type: "text", text })
}

/// A thinking block; the signature holds what the server gets back.
pub(super) fn thinking(thinking: &str, signature: String) -> Result<Box<RawValue>, ModelError> {
    #[derive(Serialize)]
    struct Block<'a> {
        r#type: &'static str,
        thinking: &'a str,
        signature: String,
    }
    raw(&Block { r#type: "thinking", thinking, signature })
}

/// A call of a tool.
pub(super) fn call(id: &str, name: &str, arguments: &str) -> Result<Box<RawValue>, ModelError> {
    #[derive(Serialize)]
    struct Block<'a> {
        r#type: &'static str,
        id: &'a str,
        name: &'a str,
        input: Option<Box<RawValue>>,
    }
    if name.is_empty() {
        return Err(ModelError::Malformed("a tool call has no name".to_owned()));
    }
    if !is_word(name, MAX_NAME) {
        let why = format!("{} is not the name of a tool", shown(name));
        return Err(ModelError::BadCall(why));
    }
    raw(&Block { r#type: "tool_use", id, name, input: as_input(arguments) })
}

/// Serializes a part of a block.
pub(super) fn raw<T: Serialize>(part: &T) -> Result<Box<RawValue>, ModelError> {
    to_raw_value(part).map_err(unreadable)
}

/// The error of content that the history cannot hold.
pub(super) fn unreadable(error: impl std::fmt::Display) -> ModelError {
    ModelError::Malformed(error.to_string())
}
