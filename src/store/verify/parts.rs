//! What the blocks of a message are, as far as rules and events speak of them.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::domain::message::{BadContent, Content, View};

/// The hash of a text.
pub(super) type Hash = [u8; 32];

pub(super) fn hash(text: &str) -> Hash {
    Sha256::digest(text.as_bytes()).into()
}

/// The hash of JSON as an event carries it: on one line.
pub(super) fn hash_of_line(json: &str) -> Hash {
    hash(&json.replace(['\n', '\r'], " "))
}

/// What the blocks of a message are, as far as rules speak of them.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "facts, each of its own")]
pub(super) struct Parts {
    pub(super) is_empty: bool,
    pub(super) has_blank_text: bool,
    pub(super) calls: Vec<Call>,
    pub(super) answers: Vec<Answer>,
    /// Whether something stands before an answer.
    pub(super) answers_are_late: bool,
    /// Whether there is nothing but answers.
    pub(super) only_answers: bool,
    /// Calls of the model's own tools.
    pub(super) server_calls: Vec<String>,
    /// The calls that their results name.
    pub(super) server_answers: Vec<String>,
    /// What events must tell of it.
    pub(super) told: Vec<Told>,
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) input: Hash,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) id: String,
    pub(super) is_error: bool,
    pub(super) text: AnswerText,
}

/// What the model was told of a call's result.
#[derive(Debug)]
pub(super) enum AnswerText {
    Whole(Hash),
    /// The first bytes of it, because the results of the round were too long.
    Cut {
        len: usize,
        hash: Hash,
    },
    /// Not a plain text.
    Other,
}

const CUT: &str = "\n[cut here: the results of this round are too long]";

impl AnswerText {
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
        match text.strip_suffix(CUT) {
            Some(kept) => Self::Cut { len: kept.len(), hash: hash(kept) },
            None => Self::Whole(hash(text)),
        }
    }

    /// Whether the model was told this, or the beginning of it.
    fn tells(&self, result: &str) -> bool {
        match self {
            Self::Whole(told) => *told == hash(result),
            // A tool may end its own text with the same words.
            Self::Cut { len, hash: told } => {
                result.get(..*len).is_some_and(|kept| *told == hash(kept))
            }
            Self::Other => true,
        }
    }
}

/// What an event and a part of a message have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    Thinking(Hash),
    Message(Hash),
    ToolUse { id: String, hash: Hash },
}

impl Told {
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
        let mut parts = Self { is_empty: blocks.is_empty(), only_answers: true, ..Self::default() };
        let (mut thoughts, mut said, mut asked) = (Vec::new(), Vec::new(), Vec::new());
        for block in &blocks {
            let is_answer = matches!(block.view, View::ToolResult { .. });
            parts.answers_are_late |= is_answer && !parts.only_answers;
            parts.only_answers &= is_answer;
            match &block.view {
                View::ToolResult { tool_use_id, is_error } => {
                    let id = tool_use_id.clone().into_owned();
                    let text = AnswerText::read(block.raw)?;
                    parts.answers.push(Answer { id, is_error: *is_error, text });
                }
                View::Text(text) => {
                    parts.has_blank_text |= text.trim().is_empty();
                    said.push(block.raw.get());
                }
                View::Thinking(text) => thoughts.push(text.as_ref()),
                View::ToolUse(call) => {
                    let (id, name) = (call.id.clone().into_owned(), call.name.clone().into_owned());
                    asked.push(Told::tool_use(&id, &name, call.input));
                    parts.calls.push(Call { id, name, input: hash(call.input.get()) });
                }
                View::RedactedThinking => {}
                View::ServerToolUse { id } => parts.server_calls.push(id.clone().into_owned()),
                View::Other { tool_use_id } => {
                    parts.server_answers.extend(tool_use_id.clone().map(Cow::into_owned));
                }
            }
        }
        parts.told.extend((!thoughts.is_empty()).then(|| Told::thinking(thoughts.into_iter())));
        let message = || Told::Message(hash_of_line(&format!("[{}]", said.join(","))));
        parts.told.extend((!said.is_empty()).then(message));
        parts.told.append(&mut asked);
        Ok(parts)
    }
}

/// What the history tells of a call, by the message that asks for it and the call's id.
pub(super) type Answers<'a> = HashMap<(i32, &'a str), &'a Answer>;

/// Whether the history tells this result of a call; none while it tells nothing.
pub(super) fn is_told(
    answers: &Answers<'_>,
    seq: i32,
    id: &str,
    row: (&str, bool),
) -> Option<bool> {
    let (result, is_error) = row;
    let answer = answers.get(&(seq, id))?;
    Some(answer.text.tells(result) && answer.is_error == is_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(json: &str) -> Parts {
        Parts::read(&Content::parse(json.to_owned()).unwrap()).unwrap()
    }

    #[test]
    fn a_result_that_was_cut_tells_the_beginning_of_the_whole_one() {
        let cut = serde_json::json!([{
            "type": "tool_result", "tool_use_id": "a", "content": format!("one two{CUT}"),
        }]);
        let parts = parts(&cut.to_string());
        let text = &parts.answers[0].text;
        assert!(text.tells("one two three"));
        assert!(text.tells(&format!("one two{CUT}")), "a tool may use the same words");
        assert!(!text.tells("one too many"));
        assert!(!text.tells("one"));
    }

    #[test]
    fn events_tell_of_thoughts_first_then_of_what_is_said_then_of_calls() {
        let json = r#"[{"type":"tool_use","id":"a","name":"f","input":{}},
            {"type":"text","text":"One"},{"type":"thinking","thinking":"hm","signature":"s"},
            {"type":"text","text":"two"}]"#;
        let told = parts(json).told;
        let kinds: Vec<&str> = told.iter().map(Told::kind).collect();
        assert_eq!(kinds, ["agent.thinking", "agent.message", "agent.tool_use"]);
        let said = r#"[{"type":"text","text":"One"},{"type":"text","text":"two"}]"#;
        assert_eq!(told[1], Told::Message(hash(said)));
    }
}
