//! Messages of the history: raw content blocks and typed views of them.
//!
//! The model refuses a history in which a byte before a thinking block was changed, and a prompt
//! cache misses on it. A block is therefore stored as the JSON text that was received, and the
//! loop reads it through borrowed views.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::stop_reason::ModelStop;
use super::tool::ToolUse;
use super::usage::Usage;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The client, or the service with tool results.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// The role as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// The content of a message: a JSON array of blocks, byte for byte.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Content(Box<RawValue>);

/// A content that cannot be parsed.
#[derive(Debug, thiserror::Error)]
#[error("content is not an array of blocks that have a type: {0}")]
pub struct BadContent(#[from] serde_json::Error);

impl Content {
    /// Parses the text of a JSON array.
    pub fn parse(text: String) -> Result<Self, BadContent> {
        let raw = RawValue::from_string(text)?;
        serde_json::from_str::<Vec<Tag<'_>>>(raw.get())?;
        Ok(Self(raw))
    }

    /// Joins raw blocks, without changing them.
    pub fn from_blocks<'a>(
        blocks: impl IntoIterator<Item = &'a RawValue>,
    ) -> Result<Self, BadContent> {
        let blocks: Vec<&RawValue> = blocks.into_iter().collect();
        Ok(Self(to_raw_value(&blocks)?))
    }

    /// Creates a content of one text block.
    pub fn text(text: &str) -> Result<Self, BadContent> {
        #[derive(Serialize)]
        struct Text<'a> {
            r#type: &'static str,
            text: &'a str,
        }
        Ok(Self(to_raw_value(&[Text { r#type: "text", text }])?))
    }

    /// The JSON text of the array.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Parses the blocks, each with its raw text and its view.
    pub fn blocks(&self) -> Result<Vec<Block<'_>>, BadContent> {
        let raw: Vec<&RawValue> = serde_json::from_str(self.0.get())?;
        raw.into_iter().map(Block::view).collect()
    }

    /// Returns the array of the provider's summary block, if there is one.
    pub fn summary(&self) -> Result<Option<String>, BadContent> {
        #[derive(Deserialize)]
        struct Summary<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
            /// Null or blank when the provider produced no summary.
            #[serde(borrow, default)]
            content: Option<Cow<'a, str>>,
        }
        let blocks: Vec<&RawValue> = serde_json::from_str(self.0.get())?;
        let is_summary = |block: &&&RawValue| {
            let read = serde_json::from_str::<Summary<'_>>(block.get());
            read.is_ok_and(|block| {
                let says_something = block.content.is_some_and(|text| !text.trim().is_empty());
                block.kind == "compaction" && says_something
            })
        };
        Ok(blocks.iter().find(is_summary).map(|block| format!("[{block}]")))
    }

    /// Joins all text blocks: the answer as a person reads it.
    pub fn joined_text(&self) -> Result<String, BadContent> {
        Ok(self
            .blocks()?
            .iter()
            .filter_map(|block| match &block.view {
                View::Text(text) => Some(text.as_ref()),
                View::Thinking(_)
                | View::RedactedThinking
                | View::ToolUse(_)
                | View::ToolResult { .. }
                | View::ServerToolUse { .. }
                | View::Other { .. } => None,
            })
            .collect())
    }
}

/// One content block.
#[derive(Debug, Clone)]
pub struct Block<'a> {
    /// The JSON text as received.
    pub raw: &'a RawValue,
    /// The typed view.
    pub view: View<'a>,
}

/// A typed view of a block. Other block types are passed through unchanged.
#[derive(Debug, Clone)]
pub enum View<'a> {
    /// Text for the reader.
    Text(Cow<'a, str>),
    /// Reasoning, possibly empty; its signature stays in the raw block.
    Thinking(Cow<'a, str>),
    /// Encrypted reasoning.
    RedactedThinking,
    /// A call of a client-side tool, which the service or the client runs.
    ToolUse(ToolUse<'a>),
    /// The result of such a call.
    ToolResult {
        /// The id of the call.
        tool_use_id: Cow<'a, str>,
        /// True if the tool failed.
        is_error: bool,
    },
    /// A call of a tool that the model provider runs.
    ServerToolUse {
        /// The id that its result block names.
        id: Cow<'a, str>,
    },
    /// Any other block.
    Other {
        /// The id of the call, if the block is the result of a provider's tool.
        tool_use_id: Option<Cow<'a, str>>,
    },
}

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Text<'a> {
    #[serde(borrow, alias = "thinking")]
    text: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Id<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Answers<'a> {
    #[serde(borrow, default)]
    tool_use_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ToolResult<'a> {
    #[serde(borrow)]
    tool_use_id: Cow<'a, str>,
    #[serde(default)]
    is_error: Option<bool>,
}

impl<'a> Block<'a> {
    /// Parses the view of one raw block.
    pub fn view(raw: &'a RawValue) -> Result<Self, BadContent> {
        let tag: Tag<'a> = serde_json::from_str(raw.get())?;
        let view = match tag.kind.as_ref() {
            "text" => View::Text(serde_json::from_str::<Text<'a>>(raw.get())?.text),
            "thinking" => View::Thinking(serde_json::from_str::<Text<'a>>(raw.get())?.text),
            "redacted_thinking" => View::RedactedThinking,
            "tool_use" => View::ToolUse(serde_json::from_str(raw.get())?),
            "tool_result" => {
                let result: ToolResult<'a> = serde_json::from_str(raw.get())?;
                View::ToolResult {
                    tool_use_id: result.tool_use_id,
                    is_error: result.is_error.unwrap_or(false),
                }
            }
            "server_tool_use" => {
                View::ServerToolUse { id: serde_json::from_str::<Id<'a>>(raw.get())?.id }
            }
            _ => View::Other {
                tool_use_id: serde_json::from_str::<Answers<'a>>(raw.get())?.tool_use_id,
            },
        };
        Ok(Self { raw, view })
    }
}

/// One entry of the history, as the loop reads it.
#[derive(Debug, Clone)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The blocks.
    pub content: Content,
    /// The model's stop reason; none for a user message.
    pub stop_reason: Option<ModelStop>,
    /// Token usage of the request; zero for a user message.
    pub usage: Usage,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_keeps_every_byte() {
        let text = r#"[{"type":"text",  "text":"a\u00e9\/"},{"b":1e3,"type":"new_thing","b":2}]"#;
        assert_eq!(Content::parse(text.to_owned()).unwrap().as_str(), text);
    }

    #[test]
    fn all_text_blocks_are_joined_into_the_answer() {
        let text = r#"[{"type":"thinking","thinking":"hm","signature":"s"},
            {"type":"text","text":"One, "},{"type":"citation_thing"},{"type":"text","text":"two."}]"#;
        let content = Content::parse(text.to_owned()).unwrap();
        assert_eq!(content.joined_text().unwrap(), "One, two.");
    }

    #[test]
    fn the_view_of_a_call_has_its_id_its_tool_and_its_input() {
        let content = concat!(
            r#"[{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","#,
            r#""name":"Edit","input":{"file_path":  "a","new_string":"\u00e9"}}]"#,
        );
        let content = Content::parse(content.to_owned()).unwrap();
        let blocks = content.blocks().unwrap();
        let View::ToolUse(call) = &blocks[1].view else { panic!("{:?}", blocks[1]) };
        assert_eq!(
            (call.id.as_ref(), call.name.as_ref(), call.input.get()),
            ("toolu_1", "Edit", r#"{"file_path":  "a","new_string":"\u00e9"}"#)
        );
    }

    #[test]
    fn a_block_without_a_type_is_refused() {
        assert!(Content::parse(r#"[{"text":"x"}]"#.to_owned()).is_err());
        assert!(Content::parse(r#"{"type":"text"}"#.to_owned()).is_err());
    }
}
