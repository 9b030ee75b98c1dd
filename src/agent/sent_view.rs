//! The history as requests carry it after the model's server has refused a part of it.
//!
//! The stored history does not change. A change is applied where the stored text is read, so that it
//! applies to all later requests.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::sent_history::{BlockPosition, SentHistoryChange};

/// The text in place of content of a user or a tool that the model could not read.
const UNREADABLE: &str =
    r#"{"type":"text","text":"(Something stood here that could not be read: it was left out.)"}"#;

/// The text in place of a call of a server tool that the server cannot continue.
const LOST_CALL: &str =
    r#"{"type":"text","text":"(This call was left out: the container of its code is lost.)"}"#;

/// The types of blocks that a text can replace. All others belong to the structure of a conversation
/// or were written by the model.
const REPLACEABLE: [&str; 4] = ["image", "document", "search_result", "container_upload"];

#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct WithContent<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// The blocks of an array, or the parts of the content of a block.
fn items(array: &str) -> Vec<&RawValue> {
    serde_json::from_str(array).unwrap_or_default()
}

fn parts(block: &RawValue) -> Vec<&RawValue> {
    let block_content: Result<WithContent<'_>, _> = serde_json::from_str(block.get());
    block_content
        .ok()
        .and_then(|block_content| block_content.content)
        .map(RawValue::get)
        .map(items)
        .unwrap_or_default()
}

fn is_one_of(block: &RawValue, kinds: &[&str]) -> bool {
    serde_json::from_str::<Tag<'_>>(block.get()).is_ok_and(|tag| kinds.contains(&tag.kind.as_ref()))
}

/// The JSON of the block at this position of a message, if a text can replace it.
pub fn replaceable_block(content: &str, position: BlockPosition) -> Option<&str> {
    let mut block = *items(content).get(position.block)?;
    if let Some(part) = position.part {
        block = *parts(block).get(part)?;
    }
    is_one_of(block, &REPLACEABLE).then(|| block.get())
}

/// The images in the results of a message.
pub fn tool_images(content: &str) -> Vec<&str> {
    let results = items(content).into_iter().filter(|block| is_one_of(block, &["tool_result"]));
    let images = results.flat_map(parts).filter(|part| is_one_of(part, &["image"]));
    images.map(RawValue::get).collect()
}

/// The changes that replace a block wherever it occurs in a stored message: a block that the model
/// cannot read in one place cannot be read in another.
pub fn changes_that_replace(seq: i32, content: &str, unreadable: &str) -> Vec<SentHistoryChange> {
    if !content.contains(unreadable) {
        return Vec::new();
    }
    let mut changes = Vec::new();
    for (block, raw) in (0..).zip(items(content)) {
        let mut note =
            |part| changes.push(SentHistoryChange::BlockReplaced { message_seq: seq, block, part });
        if raw.get() == unreadable {
            note(None);
        }
        let hits = (0..).zip(parts(raw)).filter(|(_, raw)| raw.get() == unreadable);
        hits.for_each(|(part, _)| note(Some(part)));
    }
    changes
}

/// The content of a stored message with these changes; none if they do not apply to it.
pub fn apply_changes(seq: i32, content: &str, changes: &[SentHistoryChange]) -> Option<String> {
    let drops_thinking = changes.iter().any(
        |change| matches!(change, SentHistoryChange::ThinkingDropped { up_to } if seq <= *up_to),
    );
    let places: Vec<(usize, Option<usize>)> = changes
        .iter()
        .filter_map(|change| match change {
            SentHistoryChange::BlockReplaced { message_seq, block, part }
                if *message_seq == seq =>
            {
                let part = part.and_then(|part| usize::try_from(part).ok());
                Some((usize::try_from(*block).ok()?, part))
            }
            SentHistoryChange::BlockReplaced { .. }
            | SentHistoryChange::ThinkingDropped { .. }
            | SentHistoryChange::SummaryDropped { .. } => None,
        })
        .collect();
    let is_concerned = !places.is_empty() || drops_thinking && content.contains("thinking");
    is_concerned.then(|| {
        let blocks = items(content).into_iter().enumerate();
        let kept = blocks.filter(|(_, block)| {
            !(drops_thinking && is_one_of(block, &["thinking", "redacted_thinking"]))
        });
        let blocks: Vec<String> =
            kept.map(|(at, block)| with_replacements(at, block, &places)).collect();
        format!("[{}]", blocks.join(","))
    })
}

fn with_replacements(at: usize, block: &RawValue, places: &[(usize, Option<usize>)]) -> String {
    let mut text = block.get().to_owned();
    for (_, part) in places.iter().filter(|(block, _)| *block == at) {
        let Some(part) = part else {
            let is_call = is_one_of(block, &["server_tool_use"]);
            return if is_call { LOST_CALL } else { UNREADABLE }.to_owned();
        };
        if let Some(part) = parts(block).get(*part) {
            text = text.replace(part.get(), UNREADABLE);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &str = r#"{"type":"image", "source":{}}"#;
    const TEXT: &str = r#"{"type":"text","text":"Look."}"#;
    const THINKING: &str = r#"{"type":"thinking","thinking":"","signature":"abc"}"#;
    const REDACTED: &str = r#"{"type":"redacted_thinking","data":"x"}"#;

    fn result(parts: &str) -> String {
        format!(r#"{{"type":"tool_result","tool_use_id":"1","content":[{parts}]}}"#)
    }

    fn replaced(message_seq: i32, block: i32, part: Option<i32>) -> SentHistoryChange {
        SentHistoryChange::BlockReplaced { message_seq, block, part }
    }

    #[test]
    fn a_block_is_replaced_by_a_text_wherever_it_occurs() {
        let content = format!("[{IMAGE},{TEXT},{}]", result(&format!("{TEXT},{IMAGE}")));
        let changes = changes_that_replace(4, &content, IMAGE);
        assert_eq!(changes, [replaced(4, 0, None), replaced(4, 2, Some(1))]);
        let expected = format!("[{UNREADABLE},{TEXT},{}]", result(&format!("{TEXT},{UNREADABLE}")));
        assert_eq!(apply_changes(4, &content, &changes), Some(expected));
        assert_eq!(apply_changes(5, &content, &changes), None);
    }

    #[test]
    fn only_content_of_users_and_tools_can_be_replaced() {
        let content = format!("[{TEXT},{IMAGE},{}]", result(IMAGE));
        let at =
            |block, part| replaceable_block(&content, BlockPosition { message: 0, block, part });
        assert_eq!(at(0, None), None);
        assert_eq!(at(1, None), Some(IMAGE));
        assert_eq!(at(2, None), None);
        assert_eq!(at(2, Some(0)), Some(IMAGE));
        assert_eq!(at(3, None), None);
    }

    #[test]
    fn thinking_is_left_out_up_to_a_message_and_the_rest_is_unchanged() {
        let content = format!("[{THINKING},{TEXT},{REDACTED},{IMAGE}]");
        let changes = [SentHistoryChange::ThinkingDropped { up_to: 2 }, replaced(2, 3, None)];
        let without = format!("[{TEXT},{UNREADABLE}]");
        assert_eq!(apply_changes(2, &content, &changes), Some(without));
        assert_eq!(apply_changes(1, &content, &changes), Some(format!("[{TEXT},{IMAGE}]")));
        assert_eq!(apply_changes(3, &content, &changes), None);
    }
}
