//! Translates the stored history into the messages of this protocol.

use std::borrow::Cow;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use serde_json::value::RawValue;

use super::parts::{Part, part, result_parts, summary};
use super::provider_state::{ProviderState, ThinkingPlace};
use crate::domain::message::{Block, Role, View};
use crate::domain::sent_history::BlockPosition;
use crate::model::raw_object::RawObject;

/// A message as it is sent.
#[derive(Debug, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        #[serde(serialize_with = "joined")]
        content: Vec<Part>,
    },
    Assistant(Assistant),
    Tool {
        tool_call_id: String,
        content: String,
    },
}

/// A reply of the model.
#[derive(Debug, Default)]
pub(super) struct Assistant {
    text: Option<String>,
    calls: Vec<Call>,
    /// Reasoning that the server gets back.
    thinking: Option<(ThinkingPlace, String)>,
    /// Other members that the server gets back.
    members: RawObject,
}

impl Assistant {
    /// The names of the members that only some servers accept.
    pub(super) fn special_members(&self) -> impl Iterator<Item = &str> {
        let place = self.thinking.as_ref().map(|(place, _)| place);
        let place = place.filter(|place| **place != ThinkingPlace::Content);
        let of_calls = self.calls.iter().flat_map(|call| call.members.iter().map(|(name, _)| name));
        place
            .map(|place| place.name())
            .into_iter()
            .chain(self.members.iter().map(|(name, _)| name))
            .chain(of_calls)
    }

    /// Adds a reply that follows without a message of the user.
    fn continue_with(&mut self, later: Self) {
        let texts = self.text.take().into_iter().chain(later.text);
        self.text = texts.reduce(|before, more| before + &more);
        self.calls = later.calls;
        self.thinking = match (self.thinking.take(), later.thinking) {
            (Some((place, before)), Some((_, more))) => Some((place, before + &more)),
            (before, later) => before.or(later),
        };
        self.members.continue_with(later.members);
    }
}

impl Serialize for Assistant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.thinking {
            Some((ThinkingPlace::Content, thinking)) => {
                let text = |text: &String| json!({ "type": "text", "text": text });
                let thinking = json!({ "type": "thinking", "thinking": [text(thinking)] });
                let parts: Vec<_> =
                    [thinking].into_iter().chain(self.text.as_ref().map(text)).collect();
                map.serialize_entry("content", &parts)?;
            }
            Some((place, thinking)) => {
                map.serialize_entry("content", &self.text)?;
                map.serialize_entry(place.name(), thinking)?;
            }
            None => map.serialize_entry("content", &self.text)?,
        }
        if !self.calls.is_empty() {
            map.serialize_entry("tool_calls", &self.calls)?;
        }
        for (name, value) in self.members.iter() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Call {
    id: String,
    r#type: &'static str,
    function: Function,
    #[serde(flatten)]
    members: RawObject,
}

#[derive(Debug, Serialize)]
struct Function {
    name: String,
    /// The input as JSON text inside a string.
    arguments: String,
}

/// Serializes text parts as one string, which every server accepts, and a mix with images as a
/// list.
fn joined<S: Serializer>(parts: &[Part], serializer: S) -> Result<S::Ok, S::Error> {
    let texts: Option<Vec<&str>> = parts.iter().map(Part::as_text).collect();
    match texts {
        Some(texts) => serializer.serialize_str(&texts.join("\n\n")),
        None => parts.serialize(serializer),
    }
}

/// A message of the history.
#[derive(Deserialize)]
struct Stored<'a> {
    role: Role,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

/// Translates a history. Consecutive messages of one role are merged, because the chat templates of
/// many models require alternating roles.
pub(super) fn translate(
    history: &str,
    takes_images: bool,
) -> Result<Vec<Message<'static>>, serde_json::Error> {
    let stored: Vec<Stored<'_>> = serde_json::from_str(history)?;
    let mut messages = Vec::with_capacity(stored.len() + stored.len() / 2);
    for (message, Stored { role, content }) in stored.iter().enumerate() {
        let views = content.iter().map(|raw| Block::view(raw));
        match role {
            Role::User => {
                let place =
                    |block| takes_images.then_some(BlockPosition { message, block, part: None });
                let places = (0..content.len()).map(place);
                let blocks =
                    views.zip(places).filter_map(|(view, place)| Some((view.ok()?, place)));
                push_user(&mut messages, blocks);
            }
            Role::Assistant => {
                let blocks: Vec<Block<'_>> = views.filter_map(Result::ok).collect();
                push_summaries(&mut messages, &blocks);
                push_assistant(&mut messages, &blocks);
            }
        }
    }
    Ok(messages)
}

/// Adds compaction summaries as messages of the user: they are not replies of the model.
fn push_summaries(messages: &mut Vec<Message<'static>>, blocks: &[Block<'_>]) {
    for text in blocks.iter().filter_map(|block| summary(block.raw)) {
        push_user_parts(messages, vec![Part::Text(text)]);
    }
}

/// Adds the text and the calls of a reply, with the state of the server that made it. Thinking of other
/// protocols and server-side tool calls are omitted.
fn push_assistant(messages: &mut Vec<Message<'static>>, blocks: &[Block<'_>]) {
    let mut reply = Assistant::default();
    let mut members_of_calls = RawObject::default();
    for block in blocks {
        match &block.view {
            View::Text(text) => reply.text.get_or_insert_default().push_str(text),
            View::ToolUse(call) => reply.calls.push(Call {
                members: members_of_calls.take(&call.id).unwrap_or_default(),
                id: call.id.clone().into_owned(),
                r#type: "function",
                function: Function {
                    name: function_name(&call.name).into_owned(),
                    arguments: call.input.get().to_owned(),
                },
            }),
            View::Thinking(_) => {
                let Some((state, thinking)) = ProviderState::of(block.raw) else { continue };
                reply.thinking = state.thinking.map(|place| (place, thinking));
                reply.members = state.message;
                members_of_calls = state.calls;
            }
            View::RedactedThinking
            | View::ToolResult { .. }
            | View::ServerToolUse { .. }
            | View::Other { .. } => {}
        }
    }
    reply.text = reply.text.filter(|text| !text.is_empty());
    if reply.text.is_none() && reply.calls.is_empty() {
        return;
    }
    match messages.last_mut() {
        Some(Message::Assistant(before)) if before.calls.is_empty() => before.continue_with(reply),
        _ => messages.push(Message::Assistant(reply)),
    }
}

/// Adds tool results as messages of their own. Such messages cannot contain images, so the images
/// follow in a message of the user.
fn push_user<'a>(
    messages: &mut Vec<Message<'static>>,
    blocks: impl Iterator<Item = (Block<'a>, Option<BlockPosition>)>,
) {
    let (mut parts, mut images) = (Vec::new(), Vec::new());
    for (block, place) in blocks {
        let View::ToolResult { tool_use_id, is_error } = &block.view else {
            parts.extend(part(block.raw, place));
            continue;
        };
        let (mut texts, mut is_shown) = (Vec::new(), false);
        for part in result_parts(block.raw, place) {
            match part {
                Part::Text(text) => texts.push(text),
                Part::Image(_) => {
                    if !std::mem::replace(&mut is_shown, true) {
                        texts.push(SHOWN_BELOW.to_owned());
                        images.push(Part::Text(format!("Images of the result of {tool_use_id}:")));
                    }
                    images.push(part);
                }
            }
        }
        let text = texts.join("\n");
        // The protocol has no error flag for results.
        let lacks_error_prefix = *is_error && !text.starts_with("Error");
        let content = if lacks_error_prefix { format!("Error: {text}") } else { text };
        let tool_call_id = tool_use_id.clone().into_owned();
        messages.push(Message::Tool { tool_call_id, content });
    }
    images.extend(parts);
    push_user_parts(messages, images);
}

/// Adds a text of the user.
pub(super) fn push_user_text(messages: &mut Vec<Message<'static>>, text: &str) {
    push_user_parts(messages, vec![Part::Text(text.to_owned())]);
}

fn push_user_parts(messages: &mut Vec<Message<'static>>, parts: Vec<Part>) {
    if parts.is_empty() {
        return;
    }
    match messages.last_mut() {
        Some(Message::User { content }) => content.extend(parts),
        _ => messages.push(Message::User { content: parts }),
    }
}

const SHOWN_BELOW: &str = "[images: in the next message of the user]";

/// Converts a tool name to the characters and length that the protocol allows. Models sometimes
/// invent other names, and these stay in the history.
pub(super) fn function_name(name: &str) -> Cow<'_, str> {
    const LONGEST: usize = 64;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.len() <= LONGEST && !name.is_empty() && name.chars().all(fits) {
        return name.into();
    }
    let fitted: String =
        name.chars().map(|c| if fits(c) { c } else { '_' }).take(LONGEST).collect();
    if fitted.is_empty() { "_".into() } else { fitted.into() }
}
