//! Builds the body of a request from stored JSON text.
//!
//! The members that vary follow the messages. So the body of one request, up to the end of its
//! messages, is a byte prefix of the next one, except for a cache breakpoint, which is not content.

use std::borrow::Cow;

use bytes::Bytes;

use super::head::Head;
use crate::domain::tool::ToolChoice;
use crate::model::request::Messages;

/// Builds the body of one request.
pub fn body(head: &Head, messages: Messages<'_>, choice: &ToolChoice) -> Bytes {
    let (head_text, text) = head.with_found(messages.text);
    let mut body = Vec::with_capacity(head_text.len() + text.len() + 128);
    body.extend_from_slice(&head_text);
    // The position is one of the stored text.
    let is_unchanged = matches!(text, Cow::Borrowed(_));
    let far = messages.far_breakpoint.filter(|_| is_unchanged);
    let end = head.marks_end.then(|| end_of_last_block(&text)).flatten();
    let mut rest = 0;
    for at in [far, end].into_iter().flatten() {
        let before = text.get(rest..at);
        if let (Some(breakpoint), Some(before)) = (head.breakpoint, before) {
            body.extend_from_slice(before.as_bytes());
            body.extend_from_slice(breakpoint.member().as_bytes());
            rest = at;
        }
    }
    body.extend_from_slice(text.get(rest..).unwrap_or_default().as_bytes());
    body.push(b']');
    if let Some(container) = messages.container {
        body.extend_from_slice(br#","container":"#);
        // Serializing a string cannot fail, nor can writing to a vector.
        let _ = serde_json::to_writer(&mut body, container);
    }
    if let Some(summary) = &head.summary {
        body.extend_from_slice(br#","compaction":"#);
        body.extend_from_slice(summary.get().as_bytes());
    }
    // The API allows a choice only together with tools.
    if head.has_tools && !choice.is_default() {
        body.extend_from_slice(br#","tool_choice":"#);
        let _ = serde_json::to_writer(&mut body, choice);
    }
    body.push(b'}');
    body.into()
}

/// The offset of the closing brace of the last block, if the last message has a list of blocks.
fn end_of_last_block(messages: &str) -> Option<usize> {
    let at = messages.len().checked_sub("}]}".len())?;
    messages.ends_with("}]}").then_some(at)
}

#[cfg(test)]
mod tests;
