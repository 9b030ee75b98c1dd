//! The blocks of a message, as far as rules and events concern them.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::domain::message::{BadContent, Content, View};
use crate::domain::storable::{storable_json, storable_text};

/// Returns the hash of a text.
pub(super) type Hash = [u8; 32];

pub(super) fn hash(text: &str) -> Hash {
    Sha256::digest(text.as_bytes()).into()
}

/// Returns the hash of JSON as an event carries it: on one line, and without the escapes of NUL and
/// lone surrogates.
pub(super) fn hash_of_line(json: &str) -> Hash {
    hash(&storable_json(&json.replace(['\n', '\r'], " ")))
}

/// The properties of a message's blocks that rules concern.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts, each of its own")]
pub(super) struct Parts {
    pub(super) is_empty: bool,
    pub(super) has_blank_text: bool,
    pub(super) calls: Vec<Call>,
    pub(super) results: Vec<CallResult>,
    /// True if another block precedes a result.
    pub(super) results_are_late: bool,
    /// True if all blocks are results.
    pub(super) only_results: bool,
    /// IDs of calls of the provider's server tools.
    pub(super) server_calls: Vec<String>,
    /// IDs of the calls that server tool results name.
    pub(super) server_results: Vec<String>,
    /// The parts that events must report.
    pub(super) output: Vec<Output>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: Hash,
}

#[derive(Debug)]
pub(super) struct CallResult {
    pub(super) id: String,
    pub(super) is_error: bool,
    pub(super) text: ResultText,
}

/// A call's result as the model read it.
#[derive(Debug)]
pub(super) enum ResultText {
    Whole(Hash),
    /// The first bytes of the result, because the results of the round were too long together.
    Truncated {
        len: usize,
        hash: Hash,
    },
    /// Not a plain text.
    Other,
}

const TRUNCATED: &str = "\n[cut here: the results of this round are too long]";

impl ResultText {
    fn read(block: &RawValue) -> Result<Self, BadContent> {
        #[derive(Deserialize)]
        struct ToolResult<'a> {
            #[serde(borrow, default)]
            content: Option<&'a RawValue>,
        }
        let Some(raw) = serde_json::from_str::<ToolResult<'_>>(block.get())?.content else {
            return Ok(Self::of(""));
        };
        let text = serde_json::from_str::<Cow<'_, str>>(raw.get());
        Ok(text.map_or(Self::Other, |text| Self::of(&text)))
    }

    fn of(text: &str) -> Self {
        match text.strip_suffix(TRUNCATED) {
            Some(kept) => Self::Truncated { len: kept.len(), hash: hash(kept) },
            None => Self::Whole(hash(text)),
        }
    }

    /// Returns whether an event with a text of this hash reports the result. Events have truncated
    /// results as a whole, and media by their names.
    pub(super) fn is_reported_as(&self, reported: &Hash) -> bool {
        match self {
            Self::Whole(stored) => stored == reported,
            Self::Truncated { .. } | Self::Other => true,
        }
    }

    /// Returns whether the model read this result, or its truncated form.
    fn is_of(&self, result: &str) -> bool {
        match self {
            Self::Whole(stored) => *stored == hash(result),
            // A tool's own text may end with the same words.
            Self::Truncated { len, hash: stored } => {
                result.get(..*len).is_some_and(|kept| *stored == hash(kept))
            }
            Self::Other => true,
        }
    }
}

/// The common parts of an event and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    Thinking(Hash),
    Message(Hash),
    ToolUse { id: String, hash: Hash },
}

impl Output {
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Thinking(_) => "agent.thinking",
            Self::Message(_) => "agent.message",
            Self::ToolUse { .. } => "agent.tool_use",
        }
    }

    pub(super) fn thinking<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut all = Sha256::new();
        for text in texts {
            let text = storable_text(text);
            all.update(text.len().to_be_bytes());
            all.update(text.as_bytes());
        }
        Self::Thinking(all.finalize().into())
    }

    pub(super) fn tool_use(id: &str, name: &str, input: &RawValue) -> Self {
        let hash = hash_of_line(&format!("{name} {}", input.get()));
        Self::ToolUse { id: id.to_owned(), hash }
    }
}

impl Parts {
    pub(super) fn read(content: &Content) -> Result<Self, BadContent> {
        let blocks = content.blocks()?;
        let mut parts = Self { is_empty: blocks.is_empty(), only_results: true, ..Self::default() };
        let (mut thoughts, mut texts, mut tool_uses) = (Vec::new(), Vec::new(), Vec::new());
        for block in &blocks {
            let is_result = matches!(block.view, View::ToolResult { .. });
            parts.results_are_late |= is_result && !parts.only_results;
            parts.only_results &= is_result;
            match &block.view {
                View::ToolResult { tool_use_id, is_error } => {
                    let id = tool_use_id.clone().into_owned();
                    let text = ResultText::read(block.raw)?;
                    parts.results.push(CallResult { id, is_error: *is_error, text });
                }
                View::Text(text) => {
                    parts.has_blank_text |= text.trim().is_empty();
                    texts.push(block.raw.get());
                }
                View::Thinking(text) => thoughts.push(text.as_ref()),
                View::ToolUse(call) => {
                    let (id, name) = (call.id.clone().into_owned(), call.name.clone().into_owned());
                    tool_uses.push(Output::tool_use(&id, &name, call.input));
                    parts.calls.push(Call { id, name, input: hash(call.input.get()) });
                }
                View::RedactedThinking => {}
                View::ServerToolUse { id } => parts.server_calls.push(id.clone().into_owned()),
                View::Other { tool_use_id } => {
                    parts.server_results.extend(tool_use_id.clone().map(Cow::into_owned));
                }
            }
        }
        parts.output.extend((!thoughts.is_empty()).then(|| Output::thinking(thoughts.into_iter())));
        let message = || Output::Message(hash_of_line(&format!("[{}]", texts.join(","))));
        parts.output.extend((!texts.is_empty()).then(message));
        parts.output.append(&mut tool_uses);
        Ok(parts)
    }
}

/// The results in the history, by the message with the call and the call's ID.
pub(super) type Results<'a> = HashMap<(i32, &'a str), &'a CallResult>;

/// Returns whether the history has this result of a call; `None` if it has none.
pub(super) fn history_agrees(
    answers: &Results<'_>,
    seq: i32,
    id: &str,
    row: (&str, bool),
) -> Option<bool> {
    let (result, is_error) = row;
    let answer = answers.get(&(seq, id))?;
    Some(answer.text.is_of(result) && answer.is_error == is_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(json: &str) -> Parts {
        Parts::read(&Content::parse(json.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn a_truncated_result_matches_the_beginning_of_the_whole_one() {
        let cut = serde_json::json!([{
            "type": "tool_result", "tool_use_id": "a", "content": format!("one two{TRUNCATED}"),
        }]);
        let parts = parts(&cut.to_string());
        let text = &parts.results[0].text;
        assert!(text.is_of("one two three"));
        assert!(
            text.is_of(&format!("one two{TRUNCATED}")),
            "a tool may end its text with the same words"
        );
        assert!(!text.is_of("one too many"));
        assert!(!text.is_of("one"));
    }

    #[test]
    fn events_report_thinking_first_then_text_then_calls() {
        let json = r#"[{"type":"tool_use","id":"a","name":"f","input":{}},
            {"type":"text","text":"One"},{"type":"thinking","thinking":"hm","signature":"s"},
            {"type":"text","text":"two"}]"#;
        let output = parts(json).output;
        let kinds: Vec<&str> = output.iter().map(Output::kind).collect();
        assert_eq!(kinds, ["agent.thinking", "agent.message", "agent.tool_use"]);
        let texts = r#"[{"type":"text","text":"One"},{"type":"text","text":"two"}]"#;
        assert_eq!(output[1], Output::Message(hash(texts)));
    }
}
