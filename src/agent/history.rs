//! The blocks of a reply that enter the history, chosen so that the model never refuses them later.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::domain::message::{BadContent, Block, Content, View};
use crate::domain::stop_reason::ModelStop;
use crate::domain::tool::CallResult;

/// A reply that cannot enter the history.
#[derive(Debug, thiserror::Error)]
pub enum BadReply {
    /// The results of the two calls could not be distinguished.
    #[error("the reply uses the tool call id {0:?} twice")]
    RepeatedToolUseId(String),
    /// A block cannot be parsed.
    #[error(transparent)]
    Content(#[from] BadContent),
}

/// The mode in which a reply was requested.
#[derive(Debug, Clone, Copy)]
pub struct ReplyMode {
    /// The reply was requested without tools.
    pub is_final: bool,
    /// A paused turn is resumed.
    pub may_pause: bool,
}

/// The blocks of a reply to keep, or none if there is nothing to keep.
///
/// Kept blocks are never changed. Left out are blank texts (the model emits them and then refuses
/// them), calls that will not be answered (of a truncated reply, or of a reply that must not contain
/// calls), and all blocks of a refused draft.
pub fn kept_blocks(
    content: &Content,
    stop: &ModelStop,
    mode: ReplyMode,
) -> Result<Option<Content>, BadReply> {
    if *stop == ModelStop::Refusal {
        return Ok(None);
    }
    let blocks = content.blocks()?;
    refuse_repeated_ids(&blocks)?;
    let calls_are_answered = *stop == ModelStop::ToolUse && !mode.is_final;
    let turn_continues = calls_are_answered || (stop.continues_reply() && mode.may_pause);
    let answered: HashSet<&str> = blocks.iter().filter_map(|block| answers(&block.view)).collect();

    let kept: Vec<&Block<'_>> = blocks
        .iter()
        .filter(|block| match &block.view {
            View::Text(text) => !text.trim().is_empty(),
            View::ToolUse(_) => calls_are_answered,
            View::ServerToolUse { id } => turn_continues || answered.contains(id.as_ref()),
            // The model cannot answer calls.
            View::ToolResult { .. } => false,
            View::Thinking(_) | View::RedactedThinking | View::Other { .. } => true,
        })
        .collect();
    let is_thinking = |view: &View<'_>| matches!(view, View::Thinking(_) | View::RedactedThinking);
    let says_something = kept.iter().any(|block| !is_thinking(&block.view));
    if !says_something {
        return Ok(None);
    }
    let raw: Vec<&RawValue> = kept.iter().map(|block| block.raw).collect();
    Ok(Some(if raw.len() == blocks.len() { content.clone() } else { Content::from_blocks(raw)? }))
}

/// True if the output budget truncated the reply within a call: a larger budget can complete it.
pub fn is_truncated_in_call(content: &Content, stop: &ModelStop) -> Result<bool, BadContent> {
    let blocks = content.blocks()?;
    let last = blocks.last().map(|block| &block.view);
    Ok(*stop == ModelStop::MaxTokens && matches!(last, Some(View::ToolUse(_))))
}

/// True if a reply calls tools and has no text.
pub fn is_call_without_text(content: &Content, stop: &ModelStop) -> Result<bool, BadContent> {
    let blocks = content.blocks()?;
    let has_call = blocks.iter().any(|block| matches!(block.view, View::ToolUse(_)));
    let is_blank = content.joined_text()?.trim().is_empty();
    Ok(*stop == ModelStop::ToolUse && has_call && is_blank)
}

fn answers<'a>(view: &'a View<'_>) -> Option<&'a str> {
    match view {
        View::Other { tool_use_id } => tool_use_id.as_deref(),
        View::Text(_)
        | View::Thinking(_)
        | View::RedactedThinking
        | View::ToolUse(_)
        | View::ToolResult { .. }
        | View::ServerToolUse { .. } => None,
    }
}

fn refuse_repeated_ids(blocks: &[Block<'_>]) -> Result<(), BadReply> {
    let mut seen = HashSet::new();
    for block in blocks {
        if let View::ToolUse(call) = &block.view
            && !seen.insert(call.id.as_ref())
        {
            return Err(BadReply::RepeatedToolUseId(call.id.clone().into_owned()));
        }
    }
    Ok(())
}

/// Maximum size of the text of all results of a round, in bytes. Many large results would fill the
/// model's context window at once, and they stay in the history.
const MAX_RESULTS: usize = 400 * 1024;

fn truncate(text: &str, limit: usize) -> Cow<'_, str> {
    if text.len() <= limit {
        return text.into();
    }
    let kept = text.get(..text.floor_char_boundary(limit)).unwrap_or_default();
    format!("{kept}\n[cut here: the results of this round are too long]").into()
}

/// The content of a failed result without a text.
const SILENT: &str = "The call failed without an error text.";

/// The message that answers all calls of a reply, in the order of the calls.
pub fn results(results: &[CallResult]) -> Result<Content, BadContent> {
    #[derive(Serialize)]
    struct ToolResult<'a> {
        r#type: &'static str,
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    }
    let share = MAX_RESULTS / results.len().max(1);
    let blocks = results
        .iter()
        .map(|result| {
            let text = truncate(&result.text, share);
            let content = match &result.content {
                Some(blocks) => Some(RawValue::from_string(blocks.clone())?),
                // The API requires content in an error result.
                None if text.is_empty() && result.is_error() => Some(to_raw_value(SILENT)?),
                None if text.is_empty() => None,
                None => Some(to_raw_value(&text)?),
            };
            to_raw_value(&ToolResult {
                r#type: "tool_result",
                tool_use_id: &result.tool_use_id,
                content: content.as_deref(),
                is_error: result.is_error(),
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    Content::from_blocks(blocks.iter().map(AsRef::as_ref))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::tool::CallState;

    const TEXT: &str = r#"{"type":"text","text":"Hello"}"#;
    const BLANK: &str = r#"{"type":"text","text":" \n"}"#;
    const THINKING: &str = r#"{"type":"thinking","thinking":"","signature":"abc"}"#;
    const REDACTED: &str = r#"{"type":"redacted_thinking","data":"abc"}"#;
    const CALL: &str = r#"{"type":"tool_use","id":"toolu_1","name":"f","input":{"a":1e3}}"#;
    const SERVER_CALL: &str =
        r#"{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}"#;
    const SERVER_RESULT: &str =
        r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}"#;

    fn kept(blocks: &[&str], stop: &str, is_final: bool) -> Option<String> {
        let content = Content::parse(format!("[{}]", blocks.join(", "))).unwrap();
        let mode = ReplyMode { is_final, may_pause: true };
        kept_blocks(&content, &ModelStop::from(stop), mode)
            .unwrap()
            .map(|content| content.as_str().to_owned())
    }

    #[test]
    fn a_whole_reply_is_kept_byte_for_byte() {
        let text = format!("[{THINKING}, {TEXT}, {CALL}]");
        assert_eq!(kept(&[THINKING, TEXT, CALL], "tool_use", false), Some(text));
    }

    #[test]
    fn a_truncated_call_is_left_out() {
        assert_eq!(kept(&[TEXT, CALL], "max_tokens", false), Some(format!("[{TEXT}]")));
        assert_eq!(kept(&[THINKING, CALL], "max_tokens", false), None);
        assert_eq!(kept(&[REDACTED, CALL], "max_tokens", false), None);
        assert_eq!(kept(&[CALL], "model_context_window_exceeded", false), None);
    }

    #[test]
    fn a_reply_truncated_in_a_call_is_distinguished_from_one_truncated_in_a_text() {
        let is_truncated = |blocks: &[&str], stop: &str| {
            let content = Content::parse(format!("[{}]", blocks.join(","))).unwrap();
            is_truncated_in_call(&content, &ModelStop::from(stop)).unwrap()
        };
        assert!(is_truncated(&[TEXT, CALL], "max_tokens"));
        assert!(!is_truncated(&[CALL, TEXT], "max_tokens"));
        assert!(!is_truncated(&[CALL], "tool_use"));
        assert!(!is_truncated(&[], "max_tokens"));
    }

    #[test]
    fn a_call_in_the_final_reply_is_left_out() {
        assert_eq!(kept(&[TEXT, CALL], "tool_use", true), Some(format!("[{TEXT}]")));
    }

    #[test]
    fn a_refused_draft_is_discarded() {
        assert_eq!(kept(&[TEXT], "refusal", false), None);
    }

    #[test]
    fn blank_text_is_left_out() {
        assert_eq!(kept(&[BLANK, TEXT], "end_turn", false), Some(format!("[{TEXT}]")));
        assert_eq!(kept(&[BLANK], "end_turn", false), None);
        assert_eq!(kept(&[], "end_turn", false), None);
    }

    #[test]
    fn an_open_server_call_is_kept_only_while_the_turn_goes_on() {
        let open = Some(format!("[{TEXT}, {SERVER_CALL}]"));
        assert_eq!(kept(&[TEXT, SERVER_CALL], "pause_turn", false), open);
        assert_eq!(kept(&[TEXT, SERVER_CALL], "end_turn", false), Some(format!("[{TEXT}]")));
        let closed = Some(format!("[{SERVER_CALL}, {SERVER_RESULT}, {TEXT}]"));
        assert_eq!(kept(&[SERVER_CALL, SERVER_RESULT, TEXT], "end_turn", false), closed);
    }

    #[test]
    fn all_results_make_one_message_in_the_order_of_the_calls() {
        let result = CallResult::of_text;
        let content = results(&[
            result("b", CallState::Done, "say \"hi\""),
            result("a", CallState::Interrupted, "who knows"),
            result("c", CallState::Done, ""),
            result("e", CallState::Failed, ""),
            CallResult {
                content: Some(r#"[{"type":"text","text":"two"}]"#.into()),
                ..result("d", CallState::Done, "two")
            },
        ]);
        let expected = concat!(
            r#"[{"type":"tool_result","tool_use_id":"b","content":"say \"hi\""},"#,
            r#"{"type":"tool_result","tool_use_id":"a","content":"who knows","is_error":true},"#,
            r#"{"type":"tool_result","tool_use_id":"c"},"#,
            r#"{"type":"tool_result","tool_use_id":"e","content":"The call failed without an error text.","#,
            r#""is_error":true},"#,
            r#"{"type":"tool_result","tool_use_id":"d","content":[{"type":"text","text":"two"}]}]"#,
        );
        assert_eq!(content.unwrap().as_str(), expected);
    }

    #[test]
    fn an_open_server_call_of_a_pause_that_is_not_resumed_is_left_out() {
        let content = Content::parse(format!("[{TEXT}, {SERVER_CALL}]")).unwrap();
        let mode = ReplyMode { is_final: false, may_pause: false };
        let kept = kept_blocks(&content, &ModelStop::PauseTurn, mode).unwrap().unwrap();
        assert_eq!(kept.as_str(), format!("[{TEXT}]"));
    }

    #[test]
    fn results_that_are_too_large_together_are_truncated_alike() {
        let one =
            |id: usize| CallResult::of_text(&id.to_string(), CallState::Done, "é".repeat(50_000));
        let many: Vec<CallResult> = (0..45).map(one).collect();
        let content = results(&many).unwrap();
        assert!(content.as_str().len() < MAX_RESULTS + 45 * 200);
        assert!(content.as_str().contains("[cut here: the results of this round are too long]"));
        assert!(!results(&many[..1]).unwrap().as_str().contains("[cut here"));
    }

    #[test]
    fn a_repeated_call_id_is_refused() {
        let content = Content::parse(format!("[{CALL},{CALL}]")).unwrap();
        assert!(matches!(
            kept_blocks(&content, &ModelStop::ToolUse, ReplyMode { is_final: false, may_pause: true }),
            Err(BadReply::RepeatedToolUseId(id)) if id == "toolu_1"
        ));
    }
}
