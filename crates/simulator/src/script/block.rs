//! A content block in a script.

use serde::Deserialize;
use serde_json::{Map, Value};

/// One content block of a scripted reply.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub enum Block {
    /// `text`, streamed in pieces. Can contain placeholders.
    Text {
        /// The text.
        text: String,
        /// The citations; each becomes one `citations_delta`.
        citations: Vec<Value>,
    },
    /// `thinking`. The simulator signs it unless the script has a signature.
    Thinking {
        /// The text, which can be empty.
        thinking: String,
        /// A signature that replaces the simulator's own.
        signature: Option<String>,
    },
    /// `tool_use` or `server_tool_use`.
    Call {
        /// The type of the call.
        kind: CallKind,
        /// A fixed id; without it the call gets a new one.
        id: Option<String>,
        /// The name of the tool.
        name: String,
        /// The input. Its strings can contain placeholders.
        input: Value,
        /// Replaces `input`, unchanged, even if it is not JSON.
        raw_input: Option<String>,
    },
    /// Any other block, sent complete and unchanged.
    Raw(Map<String, Value>),
}

/// The party that runs a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// `tool_use`: the client.
    Client,
    /// `server_tool_use`: the API itself.
    Server,
}

impl CallKind {
    /// The `type` of the block.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "tool_use",
            Self::Server => "server_tool_use",
        }
    }
}

impl Block {
    /// A text block without citations.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), citations: Vec::new() }
    }

    /// A summary with generated text.
    pub(crate) fn summary() -> Self {
        Self::Raw(Map::from_iter([("type".to_owned(), "compaction".into())]))
    }

    /// A call of a client tool with a new id.
    pub(crate) fn call(name: impl Into<String>, input: Value) -> Self {
        let name = name.into();
        Self::Call { kind: CallKind::Client, id: None, name, input, raw_input: None }
    }

    /// True if the client must run this block.
    pub(crate) fn is_client_call(&self) -> bool {
        matches!(self, Self::Call { kind: CallKind::Client, .. })
    }
}

impl TryFrom<Map<String, Value>> for Block {
    type Error = String;

    fn try_from(mut block: Map<String, Value>) -> Result<Self, String> {
        let kind = required(&mut block, "type")?;
        let read = match kind.as_str() {
            "text" => Self::Text {
                text: required(&mut block, "text")?,
                citations: list(&mut block, "citations")?,
            },
            "thinking" => Self::Thinking {
                thinking: required(&mut block, "thinking")?,
                signature: optional(&mut block, "signature")?,
            },
            "tool_use" => call(CallKind::Client, &mut block)?,
            "server_tool_use" => call(CallKind::Server, &mut block)?,
            _ => {
                block.shift_insert(0, "type".to_owned(), Value::String(kind));
                return Ok(Self::Raw(block));
            }
        };
        match block.keys().next() {
            Some(field) => Err(format!("a `{kind}` block has no field `{field}`")),
            None => Ok(read),
        }
    }
}

fn call(kind: CallKind, block: &mut Map<String, Value>) -> Result<Block, String> {
    Ok(Block::Call {
        kind,
        id: optional(block, "id")?,
        name: required(block, "name")?,
        input: match block.shift_remove("input") {
            None => Value::Object(Map::new()),
            Some(input @ Value::Object(_)) => input,
            Some(_) => return Err("`input` must be an object; `raw_input` sends any text".into()),
        },
        raw_input: optional(block, "raw_input")?,
    })
}

fn required(block: &mut Map<String, Value>, field: &str) -> Result<String, String> {
    optional(block, field)?.ok_or_else(|| format!("a block needs the string `{field}`"))
}

fn optional(block: &mut Map<String, Value>, field: &str) -> Result<Option<String>, String> {
    match block.shift_remove(field) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{field}` must be a string")),
    }
}

fn list(block: &mut Map<String, Value>, field: &str) -> Result<Vec<Value>, String> {
    match block.shift_remove(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(format!("`{field}` must be an array")),
    }
}
