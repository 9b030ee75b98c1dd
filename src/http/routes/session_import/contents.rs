//! The contents of imported messages of the user: what people wrote, and what tools answered.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::lines::wrong;
use crate::domain::media::told;
use crate::domain::message::{BadContent, Content};
use crate::domain::run::{ModelStop, Refusal, StopReason};
use crate::domain::tool::ToolCall;
use crate::http::blocks::{Block, Given, read};
use crate::http::error::FieldError;
use crate::http::extract::json_body::{pointer, without_position};

/// An answer to a call.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) text: String,
    /// Its blocks, if it is more than a text.
    pub(super) content: Option<String>,
    /// What its event tells.
    pub(super) told: Content,
    pub(super) is_error: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenResult<'a> {
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

fn given(raw: &RawValue, at: &str) -> Result<Given, Vec<FieldError>> {
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let place = format!("{at}{}", pointer(error.path()));
        vec![wrong(place, without_position(&error.into_inner().to_string()))]
    })
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err takes")]
fn unreadable(error: BadContent) -> Vec<FieldError> {
    vec![wrong("", error.to_string())]
}

/// What a person wrote, in the form in which a posted message is kept.
pub(super) fn users_content(raw: &RawValue, at: &str) -> Result<Content, Vec<FieldError>> {
    let content = read(given(raw, at)?, at);
    if !content.errors.is_empty() {
        return Err(content.errors);
    }
    if content.blocks.is_empty() {
        return Err(vec![wrong(at, "is empty")]);
    }
    let text = serde_json::to_string(&content.blocks).map_err(BadContent::from);
    text.and_then(Content::parse).map_err(unreadable)
}

/// The answers to these calls: one for each, in their order, and nothing else.
pub(super) fn answers(
    raw: &RawValue,
    calls: &[ToolCall],
    at: &str,
) -> Result<Vec<Answer>, Vec<FieldError>> {
    let Ok(blocks) = serde_json::from_str::<Vec<&RawValue>>(raw.get()) else {
        return Err(vec![wrong(at, "is not an array of blocks")]);
    };
    let mut answers = Vec::with_capacity(blocks.len());
    for (index, (block, call)) in blocks.iter().zip(calls).enumerate() {
        answers.push(answer(block, call, &format!("{at}/{index}"))?);
    }
    if blocks.len() != calls.len() {
        let problem = format!("is not {} results, one for each call before", calls.len());
        return Err(vec![wrong(at, problem)]);
    }
    Ok(answers)
}

fn answer(block: &RawValue, call: &ToolCall, at: &str) -> Result<Answer, Vec<FieldError>> {
    let refuse = |member: &str, problem: String| Err(vec![wrong(format!("{at}{member}"), problem)]);
    let result: GivenResult<'_> = match serde_json::from_str(block.get()) {
        Ok(result) => result,
        Err(error) => return refuse("", without_position(&error.to_string())),
    };
    if result.r#type != "tool_result" {
        return refuse("/type", "is not tool_result".to_owned());
    }
    if result.tool_use_id != call.tool_use_id {
        return refuse("/tool_use_id", format!("is not {}, whose turn it is", call.tool_use_id));
    }
    let is_error = result.is_error.unwrap_or(false);
    let pointer = format!("{at}/content");
    let given = result.content.map(|raw| given(raw, &pointer)).transpose()?;
    let blocks = match given.unwrap_or_else(|| Given::Text(String::new())) {
        Given::Text(text) if text.contains('\0') => return refuse("/content", "has a NUL".into()),
        Given::Text(text) => {
            let told = Content::text(&text).map_err(unreadable)?;
            return Ok(Answer { text, content: None, told, is_error });
        }
        given @ Given::Blocks(_) => read(given, &pointer),
    };
    if !blocks.errors.is_empty() {
        return Err(blocks.errors);
    }
    if is_error && blocks.blocks.iter().any(Block::is_media) {
        return refuse("/content", "has more than text, which an error cannot have".to_owned());
    }
    let texts: Vec<&str> = blocks.blocks.iter().filter_map(Block::as_text).collect();
    let content = result.content.map_or("[]", RawValue::get).to_owned();
    let told = Content::parse(content.clone()).and_then(|content| told(&content));
    let told = told.map_err(unreadable)?;
    Ok(Answer { text: texts.join("\n"), content: Some(content), told, is_error })
}

/// Why a run with this last reply settled.
pub(super) fn stop_reason(stop: &ModelStop) -> StopReason {
    match stop {
        ModelStop::EndTurn => StopReason::EndTurn,
        ModelStop::StopSequence => StopReason::StopSequence,
        ModelStop::MaxTokens => StopReason::MaxTokens,
        ModelStop::ModelContextWindowExceeded => StopReason::ModelContextWindowExceeded,
        ModelStop::Refusal => StopReason::Refusal(Refusal::default()),
        ModelStop::ToolUse | ModelStop::PauseTurn | ModelStop::Compaction | ModelStop::Other(_) => {
            StopReason::Unknown { model_stop_reason: stop.as_str().to_owned() }
        }
    }
}
