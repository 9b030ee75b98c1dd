//! The items of a request's `input`.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::json;
use serde_json::value::RawValue;

use super::super::parts::{Image, Part};

/// An item of `input`.
#[derive(Debug)]
pub(super) enum Item {
    /// A message of the user.
    User(Vec<Part>),
    /// Text of the model.
    Assistant(String),
    /// A call of the model.
    Call { id: String, name: String, arguments: String },
    /// The result of a call.
    Output { id: String, parts: Vec<Part> },
    /// Reasoning of the model, as the server sent it.
    Reasoning(Box<RawValue>),
}

/// A part in the form of this protocol.
struct Input<'a>(&'a Part);

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.0 {
            Part::Text(text) => {
                map.serialize_entry("type", "input_text")?;
                map.serialize_entry("text", text)?;
            }
            Part::Image(Image { url, .. }) => {
                map.serialize_entry("type", "input_image")?;
                map.serialize_entry("image_url", url)?;
                map.serialize_entry("detail", "auto")?;
            }
        }
        map.end()
    }
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let inputs = |parts: &[Part]| json!(parts.iter().map(Input).collect::<Vec<_>>());
        match self {
            Self::User(parts) => {
                json!({ "type": "message", "role": "user", "content": inputs(parts) })
                    .serialize(serializer)
            }
            Self::Assistant(text) => {
                json!({ "type": "message", "role": "assistant", "content": text })
                    .serialize(serializer)
            }
            Self::Call { id, name, arguments } => {
                json!({ "type": "function_call", "call_id": id, "name": name,
                        "arguments": arguments })
                .serialize(serializer)
            }
            Self::Output { id, parts } => {
                let texts: Option<Vec<&str>> = parts.iter().map(Part::as_text).collect();
                let output = match texts {
                    Some(texts) => json!(texts.join("\n")),
                    None => inputs(parts),
                };
                json!({ "type": "function_call_output", "call_id": id, "output": output })
                    .serialize(serializer)
            }
            Self::Reasoning(item) => item.serialize(serializer),
        }
    }
}
