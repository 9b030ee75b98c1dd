//! Access to the parts of a Messages request.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use serde_json::{Map, Value};

/// The body of a request. Access never fails: a member that is missing or has another type is
/// absent. Validation reports such members separately.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApiRequest<'a>(pub(crate) &'a Map<String, Value>);

/// The meaning of `tool_choice`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolChoice<'a> {
    Auto,
    Any,
    Tool(&'a str),
    None,
}

/// One content block. A message with a string as content has one text block.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ContentBlock<'a> {
    Text(&'a str),
    Json(&'a Value),
}

/// The position of a block, displayed as in the API's errors: `messages.0.content.1`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockPath {
    pub(crate) message: usize,
    pub(crate) index: usize,
}

/// A block and its position.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocatedBlock<'a> {
    pub(crate) at: BlockPath,
    pub(crate) block: ContentBlock<'a>,
}

/// Consecutive messages with the same role. The API merges them into one.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pub(crate) role: &'a str,
    pub(crate) blocks: Vec<LocatedBlock<'a>>,
}

impl<'a> ApiRequest<'a> {
    pub(crate) fn get(self, field: &str) -> Option<&'a Value> {
        self.0.get(field)
    }

    pub(crate) fn model(self) -> &'a str {
        self.get("model").and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn messages(self) -> &'a [Value] {
        list(self.get("messages"))
    }

    /// The text of the system prompt.
    pub(crate) fn system(self) -> Cow<'a, str> {
        match self.get("system") {
            Some(Value::String(text)) => Cow::Borrowed(text),
            Some(Value::Array(blocks)) => {
                let texts = blocks.iter().filter_map(|block| block.get("text")?.as_str());
                Cow::Owned(texts.collect::<Vec<_>>().join("\n"))
            }
            _ => Cow::Borrowed(""),
        }
    }

    pub(crate) fn tools(self) -> &'a [Value] {
        list(self.get("tools"))
    }

    pub(crate) fn streams(self) -> bool {
        self.get("stream").and_then(Value::as_bool).unwrap_or_default()
    }

    pub(crate) fn choice(self) -> ToolChoice<'a> {
        let choice = self.get("tool_choice");
        let field = |name| choice.and_then(|choice| choice.get(name)).and_then(Value::as_str);
        match field("type") {
            Some("any") => ToolChoice::Any,
            Some("none") => ToolChoice::None,
            Some("tool") => ToolChoice::Tool(field("name").unwrap_or_default()),
            _ => ToolChoice::Auto,
        }
    }

    /// True if a reply may have at most one call.
    pub(crate) fn forbids_parallel(self) -> bool {
        let disabled =
            |choice: &Value| choice.get("disable_parallel_tool_use") == Some(&Value::Bool(true));
        self.get("tool_choice").is_some_and(disabled)
    }

    /// The `type` of the `thinking` setting.
    pub(crate) fn thinking(self) -> Option<&'a str> {
        self.get("thinking")?.get("type")?.as_str()
    }

    /// The setting that asks for a summary only.
    pub(crate) fn compaction(self) -> Option<&'a Value> {
        self.get("compaction").filter(|setting| !setting.is_null())
    }

    /// The edits of the context.
    pub(crate) fn edits(self) -> &'a [Value] {
        list(self.get("context_management").and_then(|setting| setting.get("edits")))
    }

    /// The edit with this type.
    pub(crate) fn edit(self, kind: &str) -> Option<&'a Value> {
        self.edits().iter().find(|edit| edit.get("type").is_some_and(|named| named == kind))
    }

    /// True if the request offers a tool with this name.
    pub(crate) fn offers(self, tool: &str) -> bool {
        self.tools().iter().any(|offered| offered.get("name").is_some_and(|name| name == tool))
    }

    /// All blocks with the roles of their messages. Blocks before the last summary do not count.
    pub(crate) fn sent(self) -> impl Iterator<Item = (&'a str, LocatedBlock<'a>)> {
        let start = self.start();
        let messages = self.messages().iter().enumerate().skip(start.message);
        let all = messages.flat_map(|(message, sent)| {
            let located =
                move |(index, block)| LocatedBlock { at: BlockPath { message, index }, block };
            blocks(sent).enumerate().map(move |numbered| (role(sent), located(numbered)))
        });
        all.skip(start.index)
    }

    /// The position of the last summary, else of the first block.
    pub(crate) fn start(self) -> BlockPath {
        let is_summary =
            |block: &ContentBlock<'_>| block.is("compaction") && block.str("content").is_some();
        let found = self.messages().iter().enumerate().rev().find_map(|(message, sent)| {
            let summaries = blocks(sent).enumerate().filter(|(_, block)| is_summary(block));
            summaries.last().map(|(index, _)| BlockPath { message, index })
        });
        found.unwrap_or(BlockPath { message: 0, index: 0 })
    }

    /// The messages, with consecutive ones of the same role merged.
    pub(crate) fn turns(self) -> Vec<Turn<'a>> {
        let mut turns: Vec<Turn<'a>> = Vec::new();
        for (role, located) in self.sent() {
            match turns.last_mut() {
                Some(turn) if turn.role == role => turn.blocks.push(located),
                _ => turns.push(Turn { role, blocks: vec![located] }),
            }
        }
        turns
    }
}

/// The turns of the tool loop that the request continues, from the first reply of the loop on; none if
/// the request ends with no result of a call.
pub(crate) fn open_loop<'t, 'a>(turns: &'t [Turn<'a>]) -> Option<&'t [Turn<'a>]> {
    let is_result = |located: &LocatedBlock<'_>| located.block.is("tool_result");
    let last = turns.len().checked_sub(1)?;
    if turns.get(last)?.role != "user" || !turns.get(last)?.blocks.iter().any(is_result) {
        return None;
    }
    let continues = |turn: &Turn<'_>| turn.role == "assistant" || turn.blocks.iter().all(is_result);
    let start = turns.get(..last)?.iter().rposition(|turn| !continues(turn));
    turns.get(start.map_or(0, |start| start + 1)..)
}

impl Display for BlockPath {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "messages.{}.content.{}", self.message, self.index)
    }
}

impl<'a> ContentBlock<'a> {
    pub(crate) fn kind(self) -> &'a str {
        match self {
            Self::Text(_) => "text",
            Self::Json(_) => self.str("type").unwrap_or_default(),
        }
    }

    pub(crate) fn is(self, kind: &str) -> bool {
        self.kind() == kind
    }

    /// A string member of the block.
    pub(crate) fn str(self, field: &str) -> Option<&'a str> {
        match self {
            Self::Text(text) => (field == "text").then_some(text),
            Self::Json(block) => block.get(field)?.as_str(),
        }
    }

    /// The block as sent, unless it was a string.
    pub(crate) fn json(self) -> Option<&'a Value> {
        match self {
            Self::Text(_) => None,
            Self::Json(block) => Some(block),
        }
    }

    pub(crate) fn get(self, field: &str) -> Option<&'a Value> {
        match self {
            Self::Text(_) => None,
            Self::Json(block) => block.get(field),
        }
    }

    /// The text of a `tool_result`, from a string or from text blocks.
    pub(crate) fn result_text(self) -> String {
        match self.get("content") {
            Some(Value::String(text)) => text.trim().to_owned(),
            Some(Value::Array(parts)) => {
                let texts: Vec<_> =
                    parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
                texts.join("\n").trim().to_owned()
            }
            _ => String::new(),
        }
    }
}

/// The role of a message.
pub(crate) fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

/// The content blocks of a message.
pub(crate) fn blocks(message: &Value) -> impl Iterator<Item = ContentBlock<'_>> {
    let content = message.get("content");
    let text = content.and_then(Value::as_str).map(ContentBlock::Text);
    text.into_iter().chain(list(content).iter().map(ContentBlock::Json))
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
