//! The rules for a single content block: known type, known fields, and text that is not blank.

use serde_json::Value;

use super::tools::is_word;
use super::{Checked, Rules, media, refuse, unexpected};
use crate::betas;
use crate::request::{BlockPath, ContentBlock, blocks, role};

const USER: &str = "'container_upload', 'document', 'image', 'search_result', 'text', \
                    'tool_addition', 'tool_removal', 'tool_result'";

const ECHOED: &str = "'bash_code_execution_tool_result', 'code_execution_tool_result', \
                      'container_upload', 'redacted_thinking', 'server_tool_use', 'text', \
                      'text_editor_code_execution_tool_result', 'thinking', \
                      'tool_search_tool_result', 'tool_use', 'web_fetch_tool_result', \
                      'web_search_tool_result'";

/// Checks the blocks of one message.
pub(super) fn check(number: usize, message: &Value, rules: &Rules) -> Checked {
    for (index, block) in blocks(message).enumerate() {
        let at = BlockPath { message: number, index };
        let kind = block.kind();
        if kind.is_empty() {
            return refuse(format!("{at}.type: Field required"));
        }
        owner(at, role(message), block, rules)?;
        if rules.refuse_unknown_fields {
            fields(at, kind, block)?;
        }
        required(at, kind, block)?;
        text(block)?;
        if let ContentBlock::Json(block) = block
            && role(message) == "user"
        {
            media::check(&at.to_string(), block)?;
        }
        cache_marker(at, kind, block)?;
    }
    Ok(())
}

/// Checks that the role can send a block of this type. Assistant messages are echoes, so they can
/// have all types. A signed summary can have either role and depends on a beta feature instead.
fn owner(at: BlockPath, role: &str, block: ContentBlock<'_>, rules: &Rules) -> Checked {
    let kind = block.kind();
    let is_signed_summary = kind == "compaction" && block.get("signature").is_some();
    if is_signed_summary && rules.betas.any(&[betas::ON_REQUEST]) {
        return Ok(());
    }
    if role == "assistant" {
        return match kind {
            "compaction" if is_signed_summary => unexpected(at, kind, ECHOED),
            "compaction" => unsigned(at, block, rules),
            "tool_result" => refuse(format!(
                "messages.{}: `tool_result` blocks can only be in `user` messages",
                at.message
            )),
            _ => Ok(()),
        };
    }
    let known = USER.split(", ").any(|known| known.trim_matches('\'') == kind);
    match kind {
        _ if known => Ok(()),
        "tool_use" | "thinking" | "redacted_thinking" | "server_tool_use" => refuse(format!(
            "messages.{}: `{kind}` blocks can only be in `assistant` messages",
            at.message
        )),
        _ => unexpected(at, kind, USER),
    }
}

/// Checks an automatic summary, which has no signature.
fn unsigned(at: BlockPath, summary: ContentBlock<'_>, rules: &Rules) -> Checked {
    if rules.betas.any(&[betas::AUTOMATIC]) {
        return Ok(());
    }
    if !rules.betas.any(&[betas::ON_REQUEST]) {
        return unexpected(at, "compaction", ECHOED);
    }
    if summary.str("content").is_some() {
        return refuse(format!(
            "{at}: a `compaction` block with `content` requires its `signature`"
        ));
    }
    Ok(())
}

/// Refuses unknown fields. Types without a list can have any field.
fn fields(at: BlockPath, kind: &str, block: ContentBlock<'_>) -> Checked {
    let known: &[&str] = match kind {
        "text" => &["text", "citations", "cache_control"],
        "tool_use" => &["id", "name", "input", "caller", "toolset_name", "cache_control"],
        "tool_result" => &["tool_use_id", "content", "is_error", "toolset_name", "cache_control"],
        "thinking" => &["thinking", "signature"],
        "redacted_thinking" => &["data"],
        "image" => &["source", "transformations", "cache_control"],
        "document" => &["source", "title", "context", "citations", "cache_control"],
        "search_result" => &["source", "title", "content", "citations", "cache_control"],
        "compaction" if block.get("signature").is_some() => {
            &["content", "signature", "cache_control"]
        }
        "compaction" => &["content", "encrypted_content", "cache_control"],
        _ => return Ok(()),
    };
    let ContentBlock::Json(Value::Object(block)) = block else {
        return Ok(());
    };
    match block.keys().find(|field| *field != "type" && !known.contains(&field.as_str())) {
        Some(field) => refuse(format!("{at}.{kind}.{field}: Extra inputs are not permitted")),
        None => Ok(()),
    }
}

fn required(at: BlockPath, kind: &str, block: ContentBlock<'_>) -> Checked {
    let strings: &[&str] = match kind {
        "text" => &["text"],
        "tool_use" => &["id", "name"],
        "tool_result" => &["tool_use_id"],
        "thinking" => &["thinking", "signature"],
        "redacted_thinking" => &["data"],
        "compaction" if block.get("signature").is_some() => &["content", "signature"],
        _ => &[],
    };
    if let Some(field) = strings.iter().find(|field| block.str(field).is_none()) {
        return refuse(format!("{at}.{kind}.{field}: Field required"));
    }
    call_words(at, kind, block)?;
    if kind == "tool_use" && !block.get("input").is_some_and(Value::is_object) {
        return refuse(format!("{at}.{kind}.input: Input should be a valid dictionary"));
    }
    if kind == "tool_result" {
        return result_content(at, block);
    }
    Ok(())
}

/// The form of the name and the id of a call in the history.
fn call_words(at: BlockPath, kind: &str, block: ContentBlock<'_>) -> Checked {
    let patterns: &[(&str, &str, usize)] = match kind {
        "tool_use" => {
            &[("id", "^[a-zA-Z0-9_-]+$", usize::MAX), ("name", "^[a-zA-Z0-9_-]{1,128}$", 128)]
        }
        "server_tool_use" => &[("id", "^[a-zA-Z0-9_-]+$", usize::MAX)],
        _ => &[],
    };
    for (field, pattern, most) in patterns {
        if block.str(field).is_some_and(|text| !is_word(text, *most)) {
            return refuse(format!("{at}.{kind}.{field}: String should match pattern '{pattern}'"));
        }
    }
    Ok(())
}

/// The content of a tool result: absent, a string, or blocks of the allowed types.
fn result_content(at: BlockPath, block: ContentBlock<'_>) -> Checked {
    let is_error = block.get("is_error") == Some(&Value::Bool(true));
    let says_nothing = |content: &Value| content == "" || content == &Value::Array(Vec::new());
    if is_error && block.get("content").is_none_or(says_nothing) {
        return refuse(format!("{at}.tool_result: content cannot be empty if `is_error` is true"));
    }
    let parts = match block.get("content") {
        None | Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(parts)) => parts,
        Some(_) => {
            return refuse(format!("{at}.tool_result.content: Input should be a valid list"));
        }
    };
    for (nth, part) in parts.iter().enumerate() {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        if is_error && kind != "text" {
            return refuse(format!(
                "{at}.tool_result: all content must be type `text` if `is_error` is true"
            ));
        }
        match kind {
            "text" if part.get("text").is_some_and(|text| text == "") => {
                return refuse("messages: text content blocks must be non-empty");
            }
            "image" | "document" | "search_result" => {
                media::check(&format!("{at}.tool_result.content.{nth}"), part)?;
            }
            "text" | "tool_reference" | "browser_state" => {}
            _ => {
                return refuse(format!(
                    "{at}.tool_result.content.{nth}: Input tag '{kind}' found using 'type' does \
                     not match any of the expected tags: 'text', 'image', 'document', \
                     'search_result', 'tool_reference', 'browser_state'"
                ));
            }
        }
    }
    Ok(())
}

fn text(block: ContentBlock<'_>) -> Checked {
    match block.str("text").filter(|_| block.is("text")) {
        Some("") if block.get("cache_control").is_none() => {
            refuse("messages: text content blocks must be non-empty")
        }
        Some(text) if !text.is_empty() && text.trim().is_empty() => {
            refuse("messages: text content blocks must contain non-whitespace text")
        }
        _ => Ok(()),
    }
}

/// A cache marker needs content to cache.
fn cache_marker(at: BlockPath, kind: &str, block: ContentBlock<'_>) -> Checked {
    if block.get("cache_control").is_none() {
        return Ok(());
    }
    match kind {
        "text" if block.str("text") == Some("") => {
            refuse(format!("{at}: cache_control cannot be set for empty text blocks"))
        }
        "thinking" | "redacted_thinking" => {
            refuse(format!("{at}.{kind}.cache_control: Extra inputs are not permitted"))
        }
        _ => Ok(()),
    }
}
