//! Translates the stored history into the items of this protocol.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::parts::{Part, part, result_parts, summary};
use super::super::translate::function_name;
use super::item::Item;
use super::reasoning;
use crate::domain::message::{Block, Role, View};
use crate::domain::sent_history::BlockPosition;

/// A message of the history.
#[derive(Deserialize)]
struct Stored<'a> {
    role: Role,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

/// Translates a history. The items of a message do not depend on later messages.
pub(super) fn translate(history: &str) -> Result<Vec<Item>, serde_json::Error> {
    let stored: Vec<Stored<'_>> = serde_json::from_str(history)?;
    let mut items = Vec::with_capacity(stored.len() * 2);
    for (message, Stored { role, content }) in stored.iter().enumerate() {
        let blocks = content.iter().map(|raw| Block::view(raw)).enumerate();
        let blocks = blocks.filter_map(|(block, view)| {
            Some((view.ok()?, BlockPosition { message, block, part: None }))
        });
        match role {
            Role::User => push_user(&mut items, blocks),
            Role::Assistant => push_assistant(&mut items, blocks.map(|(block, _)| block)),
        }
    }
    Ok(items)
}

/// Adds the reply in the order of its blocks. Reasoning without an item that follows it is omitted: the
/// server refuses it.
fn push_assistant<'a>(items: &mut Vec<Item>, blocks: impl Iterator<Item = Block<'a>>) {
    let mut reasoning = Vec::new();
    for block in blocks {
        let item = match &block.view {
            View::Text(text) => Item::Assistant(text.clone().into_owned()),
            View::ToolUse(call) => Item::Call {
                id: call.id.clone().into_owned(),
                name: function_name(&call.name).into_owned(),
                arguments: call.input.get().to_owned(),
            },
            View::Thinking(_) => {
                reasoning.extend(reasoning::item(block.raw).map(Item::Reasoning));
                continue;
            }
            View::Other { .. } => {
                // A compaction summary is no reply of the model.
                let Some(text) = summary(block.raw) else { continue };
                Item::User(vec![Part::Text(text)])
            }
            View::RedactedThinking | View::ToolResult { .. } | View::ServerToolUse { .. } => {
                continue;
            }
        };
        items.append(&mut reasoning);
        items.push(item);
    }
}

/// Adds results before the other parts of the user's message.
fn push_user<'a>(items: &mut Vec<Item>, blocks: impl Iterator<Item = (Block<'a>, BlockPosition)>) {
    let mut parts = Vec::new();
    for (block, position) in blocks {
        let View::ToolResult { tool_use_id, is_error } = &block.view else {
            parts.extend(part(block.raw, Some(position)));
            continue;
        };
        let mut result = result_parts(block.raw, Some(position));
        // The protocol has no error flag for results.
        let says_so =
            result.iter().find_map(Part::as_text).is_some_and(|it| it.starts_with("Error"));
        if *is_error && !says_so {
            result.insert(0, Part::Text("Error:".to_owned()));
        }
        let id = tool_use_id.clone().into_owned();
        items.push(Item::Output { id, parts: result });
    }
    if !parts.is_empty() {
        items.push(Item::User(parts));
    }
}
