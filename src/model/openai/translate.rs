//! The stored history in the form of this protocol.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::said::{Part, part, result_parts, summary};
use crate::domain::message::{Block, Role, View};
use crate::domain::sent_history::BlockPosition;

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
    Assistant {
        content: Option<String>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call>,
    },
    Tool {
        tool_call_id: String,
        content: String,
    },
}

#[derive(Debug, Serialize)]
pub(super) struct Call {
    id: String,
    r#type: &'static str,
    function: Function,
}

#[derive(Debug, Serialize)]
struct Function {
    name: String,
    /// The input as a text in the text.
    arguments: String,
}

/// Texts become one text, which every server takes.
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

/// Translates a history. Neighbours of one role become one message: the templates of many models
/// insist on turns.
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

/// Summaries of what stood before them are told by the user: it is not the assistant's turn.
fn push_summaries(messages: &mut Vec<Message<'static>>, blocks: &[Block<'_>]) {
    for text in blocks.iter().filter_map(|block| summary(block.raw)) {
        push_said(messages, vec![Part::Text(text)]);
    }
}

/// What the model has said and called; its thoughts, and what its server did, stay out.
fn push_assistant(messages: &mut Vec<Message<'static>>, blocks: &[Block<'_>]) {
    let (mut said, mut calls) = (String::new(), Vec::new());
    for block in blocks {
        match &block.view {
            View::Text(text) => said.push_str(text),
            View::ToolUse(call) => calls.push(Call {
                id: call.id.clone().into_owned(),
                r#type: "function",
                function: Function {
                    name: function_name(&call.name).into_owned(),
                    arguments: call.input.get().to_owned(),
                },
            }),
            View::Thinking(_)
            | View::RedactedThinking
            | View::ToolResult { .. }
            | View::ServerToolUse { .. }
            | View::Other { .. } => {}
        }
    }
    if said.is_empty() && calls.is_empty() {
        return;
    }
    let said = (!said.is_empty()).then_some(said);
    if let Some(Message::Assistant { content, tool_calls }) = messages.last_mut()
        && tool_calls.is_empty()
    {
        *tool_calls = calls;
        *content = content.take().into_iter().chain(said).reduce(|before, more| before + &more);
        return;
    }
    messages.push(Message::Assistant { content: said, tool_calls: calls });
}

/// Results become messages of their own, and their images, which those cannot hold, follow as the
/// user's.
fn push_user<'a>(
    messages: &mut Vec<Message<'static>>,
    blocks: impl Iterator<Item = (Block<'a>, Option<BlockPosition>)>,
) {
    let (mut said, mut images) = (Vec::new(), Vec::new());
    for (block, place) in blocks {
        let View::ToolResult { tool_use_id, is_error } = &block.view else {
            said.extend(part(block.raw, place));
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
        // There is no other way to say so.
        let is_silent = *is_error && !text.starts_with("Error");
        let content = if is_silent { format!("Error: {text}") } else { text };
        let tool_call_id = tool_use_id.clone().into_owned();
        messages.push(Message::Tool { tool_call_id, content });
    }
    images.extend(said);
    push_said(messages, images);
}

fn push_said(messages: &mut Vec<Message<'static>>, said: Vec<Part>) {
    if said.is_empty() {
        return;
    }
    match messages.last_mut() {
        Some(Message::User { content }) => content.extend(said),
        _ => messages.push(Message::User { content: said }),
    }
}

const SHOWN_BELOW: &str = "[images: in the next message of the user]";

/// The name of a function as the protocol allows it: models make up others, and they stay in the
/// history.
fn function_name(name: &str) -> Cow<'_, str> {
    const LONGEST: usize = 64;
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.len() <= LONGEST && !name.is_empty() && name.chars().all(fits) {
        return name.into();
    }
    let fitted: String =
        name.chars().map(|c| if fits(c) { c } else { '_' }).take(LONGEST).collect();
    if fitted.is_empty() { "_".into() } else { fitted.into() }
}
