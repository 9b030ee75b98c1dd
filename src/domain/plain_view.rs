//! The plain view of a history, for people and programs that handle results: errors without their
//! tags, results with their verdict, and placeholders for images, documents and search results.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::media::placeholder_block;
use super::message::{BadContent, Content, View};
use super::tool_error::{Handling, ToolErrorType};

const OPENING: &str = "<tool_use_error>";
const CLOSING: &str = "</tool_use_error>";

/// Strips the error tags from a text.
fn without_tags(text: &str) -> &str {
    text.strip_prefix(OPENING).and_then(|text| text.strip_suffix(CLOSING)).unwrap_or(text)
}

/// Returns the plain view of a content: error tags removed from failed results, media replaced by
/// placeholders. Each result of a call has `is_error` and `handling`, and `error_type` if the type of
/// its failure is known. All other blocks stay byte for byte.
///
/// `known` returns the type of the failure of a call as the service has stored it; `None` for a call
/// of which nothing is stored. Then the text decides.
pub fn plain(
    content: &Content,
    known: impl Fn(&str) -> Option<Option<ToolErrorType>>,
) -> Result<Content, BadContent> {
    let mut blocks: Vec<Box<RawValue>> = Vec::new();
    for block in content.blocks()? {
        blocks.push(match block.view {
            View::ToolResult { is_error, .. } => result(block.raw, is_error, &known)?,
            View::Text(_)
            | View::Thinking(_)
            | View::RedactedThinking
            | View::ToolUse(_)
            | View::ServerToolUse { .. }
            | View::Other { .. } => {
                placeholder_block(block.raw)?.unwrap_or_else(|| block.raw.to_owned())
            }
        });
    }
    Content::from_blocks(blocks.iter().map(AsRef::as_ref))
}

/// The plain view of a result.
fn result(
    block: &RawValue,
    is_error: bool,
    known: impl Fn(&str) -> Option<Option<ToolErrorType>>,
) -> Result<Box<RawValue>, BadContent> {
    let mut block: Map<String, Value> = serde_json::from_str(block.get())?;
    let mut error_type = None;
    if is_error {
        let text = block.get_mut("content").map(untag).unwrap_or_default();
        let stored = block.get("tool_use_id").and_then(Value::as_str).and_then(known);
        error_type = stored.unwrap_or_else(|| ToolErrorType::of_text(&text));
    } else if let Some(Value::Array(parts)) = block.get_mut("content") {
        name_media(parts)?;
    }
    block.insert("is_error".to_owned(), is_error.into());
    if let Some(error_type) = error_type {
        block.insert("error_type".to_owned(), error_type.as_str().into());
    }
    let handling = if is_error { Handling::of(error_type) } else { Handling::Success };
    block.insert("handling".to_owned(), serde_json::to_value(handling)?);
    Ok(to_raw_value(&block)?)
}

/// Replaces the media in a result by placeholders.
fn name_media(parts: &mut [Value]) -> Result<(), BadContent> {
    for part in parts {
        if let Some(name) = placeholder_block(&to_raw_value(&*part)?)? {
            *part = serde_json::from_str(name.get())?;
        }
    }
    Ok(())
}

/// Removes the error tags from the content of a result. Returns its text.
fn untag(content: &mut Value) -> String {
    match content {
        Value::String(text) => {
            *text = without_tags(text).to_owned();
            text.clone()
        }
        Value::Array(parts) => {
            let mut whole = String::new();
            for part in parts {
                if let Some(Value::String(text)) = part.get_mut("text") {
                    *text = without_tags(text).to_owned();
                    whole.push_str(text);
                }
            }
            whole
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain_of(content: &str) -> String {
        let content = Content::parse(content.to_owned()).unwrap();
        let known = |id: &str| (id == "toolu_known").then_some(Some(ToolErrorType::Timeout));
        plain(&content, known).unwrap().as_str().to_owned()
    }

    #[test]
    fn failed_results_lose_their_tags() {
        assert_eq!(
            plain_of(concat!(
                r#"[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"#,
                r#""content":"<tool_use_error>no such file</tool_use_error>"},"#,
                r#"{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"#,
                r#""content":[{"type":"text","text":"<tool_use_error>a</tool_use_error>"}]}]"#,
            )),
            concat!(
                r#"[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"#,
                r#""content":"no such file","handling":"FAIL"},"#,
                r#"{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"#,
                r#""content":[{"type":"text","text":"a"}],"handling":"FAIL"}]"#,
            )
        );
    }

    #[test]
    fn every_result_has_its_verdict_as_stored_or_by_its_text() {
        let result = |id: &str, more: &str| {
            format!(
                r#"{{"type":"tool_result","tool_use_id":"{id}","content":"fetch failed"{more}}}"#
            )
        };
        let verdicts = [
            ("toolu_1", "", r#","is_error":false,"handling":"SUCCESS""#),
            (
                "toolu_2",
                r#","is_error":true"#,
                r#","is_error":true,"error_type":"NETWORK_ERROR","handling":"FAIL""#,
            ),
            (
                "toolu_known",
                r#","is_error":true"#,
                r#","is_error":true,"error_type":"TIMEOUT","handling":"RETRY_WITH_FALLBACK""#,
            ),
        ];
        for (id, given, expected) in verdicts {
            let content = format!("[{}]", result(id, given));
            assert_eq!(plain_of(&content), format!("[{}]", result(id, expected)));
        }
    }

    #[test]
    fn images_are_replaced_by_placeholders() {
        let image = r#"{"type":"image","source":{"type":"url","url":"https://a"}}"#;
        let name = r#"{"type":"text","text":"[image https://a]"}"#;
        let result = |part: &str, more: &str| {
            format!(r#"{{"type":"tool_result","tool_use_id":"toolu_1","content":[{part}]{more}}}"#)
        };
        assert_eq!(
            plain_of(&format!("[{image},{}]", result(image, ""))),
            format!("[{name},{}]", result(name, r#","is_error":false,"handling":"SUCCESS""#))
        );
    }

    #[test]
    fn everything_else_stays_byte_for_byte() {
        let content = concat!(
            r#"[{"type":"text",  "text":"<tool_use_error>a</tool_use_error>"},"#,
            r#"{"type":"thinking","thinking":"","signature":"a\/b"}]"#,
        );
        assert_eq!(plain_of(content), content);
    }

    #[test]
    fn the_text_of_a_result_that_succeeded_is_kept() {
        let result = concat!(
            r#"[{"type":"tool_result","tool_use_id":"toolu_1","#,
            r#""content":"<tool_use_error>a file about tags</tool_use_error>"}]"#,
        );
        assert!(
            plain_of(result).contains(r#""<tool_use_error>a file about tags</tool_use_error>""#)
        );
    }

    #[test]
    fn tags_inside_a_text_are_kept() {
        assert_eq!(without_tags("say <tool_use_error>x</tool_use_error>"), {
            "say <tool_use_error>x</tool_use_error>"
        });
        assert_eq!(without_tags("<tool_use_error>"), "<tool_use_error>");
    }
}
