//! The contents of imported user messages: the input of users, and tool results.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::domain::deferred_tools::TOOL_SEARCH;
use crate::domain::found_tools::{found_text, referenced};
use crate::domain::media::with_placeholders;
use crate::domain::message::{BadContent, Content};
use crate::domain::plain_message::plain_message;
use crate::domain::stop_reason::{ModelStop, Refusal, StopReason};
use crate::domain::tool::ToolCall;
use crate::service::content::{Block, ContentInput, parse};
use crate::service::error::FieldError;
use crate::service::json::pointer;

/// The result of a call.
#[derive(Debug)]
pub(super) struct ImportedResult {
    pub(super) text: String,
    /// Its blocks, if it is more than a text.
    pub(super) content: Option<String>,
    /// The content of its event.
    pub(super) event_content: Content,
    pub(super) is_error: bool,
    /// The deferred tools to which it refers.
    pub(super) references: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultBlock<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    tool_use_id: Cow<'a, str>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    is_error: Option<bool>,
}

pub(super) fn is_message_id(id: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=128).contains(&id.len()) && id.chars().all(is_plain)
}

fn parse_input(raw: &RawValue, at: &str) -> Result<ContentInput, Vec<FieldError>> {
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let member = format!("{at}{}", pointer(error.path()));
        vec![FieldError::new(member, plain_message(&error.into_inner().to_string()))]
    })
}

#[expect(clippy::needless_pass_by_value, reason = "the signature that map_err expects")]
pub(super) fn unreadable(error: BadContent) -> Vec<FieldError> {
    vec![FieldError::new("", error.to_string())]
}

/// The input of a user, in the form in which a posted message is stored.
pub(super) fn user_content(raw: &RawValue, at: &str) -> Result<Content, Vec<FieldError>> {
    let content = parse(parse_input(raw, at)?, at);
    if !content.errors.is_empty() {
        return Err(content.errors);
    }
    if content.blocks.is_empty() {
        return Err(vec![FieldError::new(at, "is empty")]);
    }
    let text = serde_json::to_string(&content.blocks).map_err(BadContent::from);
    text.and_then(Content::parse).map_err(unreadable)
}

/// The results of these calls: one for each, in their order, and nothing else.
pub(super) fn tool_results(
    raw: &RawValue,
    calls: &[ToolCall],
    at: &str,
) -> Result<Vec<ImportedResult>, Vec<FieldError>> {
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
        return Err(vec![FieldError::new(at, "is not an array of blocks")]);
    };
    let mut results = Vec::with_capacity(blocks.len());
    for (index, (block, call)) in blocks.iter().zip(calls).enumerate() {
        results.push(tool_result(block, call, &format!("{at}/{index}"))?);
    }
    if blocks.len() != calls.len() {
        let message = format!("does not have {} results, one for each preceding call", calls.len());
        return Err(vec![FieldError::new(at, message)]);
    }
    Ok(results)
}

fn tool_result(
    block: &RawValue,
    call: &ToolCall,
    at: &str,
) -> Result<ImportedResult, Vec<FieldError>> {
    let refuse = |member: &str, message: String| {
        Err(vec![FieldError::new(format!("{at}{member}"), message)])
    };
    let result: ResultBlock<'_> = match serde_json::from_str(block.get()) {
        Ok(result) => result,
        Err(error) => return refuse("", plain_message(&error.to_string())),
    };
    if result.r#type != "tool_result" {
        return refuse("/type", "is not tool_result".to_owned());
    }
    if result.tool_use_id != call.tool_use_id {
        return refuse(
            "/tool_use_id",
            format!("is not {}, the next call in order", call.tool_use_id),
        );
    }
    let is_error = result.is_error.unwrap_or(false);
    if let Some(references) = references(&result, call) {
        let text = found_text(references.iter().map(String::as_str), "");
        let event_content = Content::text(&text).map_err(unreadable)?;
        return Ok(ImportedResult { text, content: None, event_content, is_error, references });
    }
    let pointer = format!("{at}/content");
    let input = result.content.map(|raw| parse_input(raw, &pointer)).transpose()?;
    let blocks = match input.unwrap_or_else(|| ContentInput::Text(String::new())) {
        ContentInput::Text(text) if text.contains('\0') => {
            return refuse("/content", "has a NUL character".to_owned());
        }
        ContentInput::Text(text) => {
            let event_content = Content::text(&text).map_err(unreadable)?;
            let references = Vec::new();
            return Ok(ImportedResult { text, content: None, event_content, is_error, references });
        }
        input @ ContentInput::Blocks(_) => parse(input, &pointer),
    };
    if !blocks.errors.is_empty() {
        return Err(blocks.errors);
    }
    if is_error && blocks.blocks.iter().any(Block::is_media) {
        return refuse(
            "/content",
            "has blocks other than text, which an error result cannot have".to_owned(),
        );
    }
    let texts: Vec<&str> = blocks.blocks.iter().filter_map(Block::as_text).collect();
    let content = result.content.map_or("[]", RawValue::get).to_owned();
    let event_content =
        Content::parse(content.clone()).and_then(|content| with_placeholders(&content));
    let event_content = event_content.map_err(unreadable)?;
    let text = texts.join("\n");
    let (content, references) = (Some(content), Vec::new());
    Ok(ImportedResult { text, content, event_content, is_error, references })
}

/// The tools to which the result of a search for deferred tools refers; none for any other result.
fn references(result: &ResultBlock<'_>, call: &ToolCall) -> Option<Vec<String>> {
    if call.name != TOOL_SEARCH || result.is_error == Some(true) {
        return None;
    }
    referenced(result.content?.get())
}

/// The stop reason of a run whose last reply has this stop reason.
pub(super) fn stop_reason(stop: &ModelStop) -> StopReason {
    match stop {
        ModelStop::EndTurn => StopReason::EndTurn,
        ModelStop::StopSequence(sequence) => {
            StopReason::StopSequence { stop_sequence: sequence.clone() }
        }
        ModelStop::MaxTokens => StopReason::MaxTokens,
        ModelStop::ModelContextWindowExceeded => StopReason::ModelContextWindowExceeded,
        ModelStop::Refusal => StopReason::Refusal(Refusal::default()),
        ModelStop::Interrupted => StopReason::Cancelled,
        ModelStop::ToolUse | ModelStop::PauseTurn | ModelStop::Compaction | ModelStop::Other(_) => {
            StopReason::Unknown { model_stop_reason: stop.as_str().to_owned() }
        }
    }
}
