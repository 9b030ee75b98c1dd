//! The plain view of a history, for people: errors without their tags, and placeholders for images,
//! documents and search results.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use super::media::placeholder_block;
use super::message::{BadContent, Content, View};

const OPENING: &str = "<tool_use_error>";
const CLOSING: &str = "</tool_use_error>";

/// Strips the error tags from a text.
fn without_tags(text: &str) -> &str {
    text.strip_prefix(OPENING).and_then(|text| text.strip_suffix(CLOSING)).unwrap_or(text)
}

/// Returns the plain view of a content: error tags removed from failed results, media replaced by
/// placeholders. All other blocks stay byte for byte.
pub fn plain(content: &Content) -> Result<Content, BadContent> {
    let mut blocks: Vec<Box<RawValue>> = Vec::new();
    for block in content.blocks()? {
        blocks.push(match block.view {
            View::ToolResult { is_error: true, .. } => untagged(block.raw)?,
            View::ToolResult { .. } => with_names(block.raw)?,
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

/// Replaces the media in a tool result by placeholders.
fn with_names(block: &RawValue) -> Result<Box<RawValue>, BadContent> {
    let mut result: Map<String, Value> = serde_json::from_str(block.get())?;
    let mut is_changed = false;
    if let Some(Value::Array(parts)) = result.get_mut("content") {
        for part in parts {
            if let Some(name) = placeholder_block(&to_raw_value(&*part)?)? {
                *part = serde_json::from_str(name.get())?;
                is_changed = true;
            }
        }
    }
    if is_changed { Ok(to_raw_value(&result)?) } else { Ok(block.to_owned()) }
}

fn untagged(block: &RawValue) -> Result<Box<RawValue>, BadContent> {
    let mut block: Value = serde_json::from_str(block.get())?;
    match block.get_mut("content") {
        Some(Value::String(text)) => *text = without_tags(text).to_owned(),
        Some(Value::Array(parts)) => {
            for part in parts {
                if let Some(Value::String(text)) = part.get_mut("text") {
                    *text = without_tags(text).to_owned();
                }
            }
        }
        _ => {}
    }
    Ok(to_raw_value(&block)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain_of(content: &str) -> String {
        plain(&Content::parse(content.to_owned()).unwrap()).unwrap().as_str().to_owned()
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
                r#""content":"no such file"},"#,
                r#"{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"#,
                r#""content":[{"type":"text","text":"a"}]}]"#,
            )
        );
    }

    #[test]
    fn images_are_replaced_by_placeholders() {
        let image = r#"{"type":"image","source":{"type":"url","url":"https://a"}}"#;
        let name = r#"{"type":"text","text":"[image https://a]"}"#;
        let result = |part: &str| {
            format!(r#"{{"type":"tool_result","tool_use_id":"toolu_1","content":[{part}]}}"#)
        };
        assert_eq!(
            plain_of(&format!("[{image},{}]", result(image))),
            format!("[{name},{}]", result(name))
        );
    }

    #[test]
    fn everything_else_stays_byte_for_byte() {
        let content = concat!(
            r#"[{"type":"text",  "text":"<tool_use_error>a</tool_use_error>"},"#,
            r#"{"type":"tool_result", "tool_use_id":"toolu_1","#,
            r#""content":"<tool_use_error>a file about tags</tool_use_error>"},"#,
            r#"{"type":"thinking","thinking":"","signature":"a\/b"}]"#,
        );
        assert_eq!(plain_of(content), content);
    }

    #[test]
    fn tags_inside_a_text_are_kept() {
        assert_eq!(without_tags("say <tool_use_error>x</tool_use_error>"), {
            "say <tool_use_error>x</tool_use_error>"
        });
        assert_eq!(without_tags("<tool_use_error>"), "<tool_use_error>");
    }
}
