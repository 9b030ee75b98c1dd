//! The check of a history for faults, in one pass without allocations for its content.

use std::borrow::Cow;

use serde::Deserialize;

use super::Line;
use crate::domain::message::Role;

/// True if the model accepts these messages as they are.
pub(super) fn is_valid(lines: &[Line<'_>], is_start: bool) -> bool {
    if is_start && lines.first().is_some_and(|first| first.role != Role::User) {
        return false;
    }
    let mut turn = TurnState::default();
    let mut calls: Vec<Cow<'_, str>> = Vec::new();
    for line in lines {
        if may_be_blank(&line.content) && !has_content(&line.content) {
            return false;
        }
        let tags = tags(&line.content);
        let is_paired = match line.role {
            Role::User => answers(&tags, &calls),
            Role::Assistant => calls.is_empty() && tags.iter().all(|tag| tag.kind != RESULT),
        };
        if !is_paired || !turn.accepts(line.role, &tags) {
            return false;
        }
        calls.clear();
        if line.role == Role::Assistant {
            calls.extend(tags.into_iter().filter(|tag| tag.kind == CALL).filter_map(|tag| tag.id));
        }
    }
    true
}

const CALL: &str = "tool_use";
const RESULT: &str = "tool_result";
const SERVER_CALL: &str = "server_tool_use";

/// The members of a block that the check reads.
#[derive(Debug, Deserialize)]
struct Tag<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_use_id: Option<Cow<'a, str>>,
}

/// The blocks that matter for the pairing of calls and results. Their types contain `tool_`, or an
/// escape; a message without either is not parsed.
fn tags(content: &str) -> Vec<Tag<'_>> {
    if !content.contains("tool_") && !content.contains("\\u") {
        return if content.contains('{') { vec![Tag::other()] } else { Vec::new() };
    }
    serde_json::from_str(content).unwrap_or_default()
}

impl Tag<'_> {
    fn other() -> Self {
        Self { kind: Cow::Borrowed("text"), id: None, tool_use_id: None }
    }
}

/// True if a user message begins with one result for each call and has no other results.
fn answers(tags: &[Tag<'_>], calls: &[Cow<'_, str>]) -> bool {
    let results: Vec<&Tag<'_>> = tags.iter().filter(|tag| tag.kind == RESULT).collect();
    let leading = tags.iter().take_while(|tag| tag.kind == RESULT).count();
    let has = |id: &Cow<'_, str>| results.iter().any(|tag| tag.tool_use_id.as_ref() == Some(id));
    leading == results.len() && results.len() == calls.len() && calls.iter().all(has)
}

/// A turn of the assistant and the turn of the user after it, each of one or more messages.
#[derive(Debug, Default)]
struct TurnState {
    last: Option<Role>,
    open: Vec<String>,
}

impl TurnState {
    /// False if a user message has other content than results while a call of a server tool is open.
    fn accepts(&mut self, role: Role, tags: &[Tag<'_>]) -> bool {
        if role == Role::User {
            self.last = Some(role);
            return self.open.is_empty() || tags.iter().all(|tag| tag.kind == RESULT);
        }
        if self.last == Some(Role::User) {
            self.open.clear();
        }
        self.last = Some(role);
        for tag in tags {
            match (tag.kind.as_ref(), &tag.id, &tag.tool_use_id) {
                (SERVER_CALL, Some(id), _) => self.open.push(id.clone().into_owned()),
                (_, _, Some(answered)) => self.open.retain(|open| open != answered),
                _ => {}
            }
        }
        true
    }
}

/// True if a text of the message may be blank, or the message empty. May be true for other messages
/// too, never false for such a message: a key that is not written literally contains an escape.
fn may_be_blank(content: &str) -> bool {
    let is_blank = |(at, key): (usize, &str)| {
        let value = content.get(at + key.len()..).unwrap_or_default().trim_start();
        let Some(text) = value.strip_prefix(':').and_then(|v| v.trim_start().strip_prefix('"'))
        else {
            return false;
        };
        // White space may be written as an escape.
        let is_space = |c: char| c.is_whitespace() || matches!(c, '\\' | 'n' | 'r' | 't' | 'f');
        text.trim_start_matches(is_space).starts_with('"')
    };
    !content.contains('{')
        || content.contains("\\u")
        || content.match_indices(r#""text""#).any(is_blank)
}

#[derive(Debug, Deserialize)]
struct Text<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
}

/// True if the message has blocks, and none of its texts is blank.
fn has_content(content: &str) -> bool {
    // The model decides about content that cannot be parsed.
    let Ok(blocks) = serde_json::from_str::<Vec<Text<'_>>>(content) else {
        return true;
    };
    let is_blank =
        |block: &Text<'_>| block.text.as_ref().is_some_and(|text| text.trim().is_empty());
    !blocks.is_empty() && !blocks.iter().any(|block| block.kind == "text" && is_blank(block))
}
