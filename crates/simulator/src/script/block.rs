//! A content block as a script writes it.

use serde::Deserialize;
use serde_json::{Map, Value};

/// One content block of a scripted reply.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "Map<String, Value>")]
pub enum Block {
    /// `text`, streamed in pieces; may hold placeholders.
    Text {
        /// The text.
        text: String,
        /// Citations, each sent as one `citations_delta`.
        citations: Vec<Value>,
    },
    /// `thinking`; the simulator signs it unless the script brings a signature.
    Thinking {
        /// The text, which may be empty.
        thinking: String,
        /// A signature to send instead of the simulator's own.
        signature: Option<String>,
    },
    /// `tool_use` or `server_tool_use`.
    Call {
        /// Which of the two.
        kind: CallKind,
        /// A fixed id; absent means a fresh one.
        id: Option<String>,
        /// The tool.
        name: String,
        /// The input; its strings may hold placeholders.
        input: Value,
        /// Sent in place of `input`, as it is, whether or not it is JSON.
        raw_input: Option<String>,
    },
    /// Any other block, sent complete and unchanged.
    Raw(Map<String, Value>),
}

/// Who runs a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// `tool_use`: the client.
    Client,
    /// `server_tool_use`: the API itself.
    Server,
}

impl CallKind {
    /// The block's `type`.
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

    /// A summary whose text is left to the simulator.
    pub(crate) fn summary() -> Self {
        Self::Raw(Map::from_iter([("type".to_owned(), "compaction".into())]))
    }

    /// A call of a client tool with a fresh id.
    pub(crate) fn call(name: impl Into<String>, input: Value) -> Self {
        let name = name.into();
        Self::Call { kind: CallKind::Client, id: None, name, input, raw_input: None }
    }

    /// Whether the client has to run this block.
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
