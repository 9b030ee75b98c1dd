//! A session as Markdown. Messages are in fences that are longer than any fence inside them, and
//! other text is escaped, so that no content can be mistaken for a heading of the export.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::Value;

use crate::domain::message::{BadContent, Block, Role, View};
use crate::domain::plain_view::plain;
use crate::domain::rfc3339;
use crate::domain::session::Session;
use crate::domain::stop_reason::ModelStop;
use crate::store::messages::StoredMessage;

/// The text before the messages.
pub(super) fn opening(session: &Session) -> String {
    let title = session.title.as_deref().filter(|title| !title.trim().is_empty());
    format!(
        "# {}\n\nSession {}, created {}, with the model {}.\n",
        escaped(title.unwrap_or("A conversation")),
        escaped(&session.id.to_string()),
        rfc3339::text(session.created_at),
        escaped(&session.settings.model),
    )
}

/// The text after the messages. A text without it is truncated.
pub(super) fn closing(count: i32) -> String {
    format!("\n---\n\nEnd of the export: {count} messages.\n")
}

/// One message with its heading.
pub(super) fn message(stored: &StoredMessage) -> Result<String, BadContent> {
    let content = plain(&stored.message.content, |_| None)?;
    let blocks = content.blocks()?;
    let is_result = |block: &Block<'_>| matches!(block.view, View::ToolResult { .. });
    let speaker = match stored.message.role {
        Role::Assistant if stored.message.stop_reason == Some(ModelStop::Interrupted) => {
            "Assistant (interrupted)"
        }
        Role::Assistant => "Assistant",
        Role::User if blocks.iter().all(is_result) => "Tools",
        Role::User => "User",
    };
    let mut text =
        format!("\n## {}. {speaker}\n\n{}\n", stored.seq, rfc3339::text(stored.created_at));
    for block in &blocks {
        write_block(&mut text, block)?;
    }
    Ok(text)
}

fn write_block(text: &mut String, block: &Block<'_>) -> Result<(), BadContent> {
    let (label, fenced) = match &block.view {
        View::Text(text) => (String::new(), Some((text.clone(), "markdown"))),
        View::Thinking(thought) if thought.trim().is_empty() => (hidden(), None),
        View::Thinking(thought) => ("Thinking:".to_owned(), Some((thought.clone(), "markdown"))),
        View::RedactedThinking => (hidden(), None),
        View::ToolUse(call) => {
            let label = format!("Call of {} ({}):", escaped(&call.name), escaped(&call.id));
            (label, Some((call.input.get().into(), "json")))
        }
        View::ToolResult { tool_use_id, is_error } => {
            let outcome = if *is_error { "Failure" } else { "Result" };
            (format!("{outcome} of {}:", escaped(tool_use_id)), Some((result(block)?, "")))
        }
        View::ServerToolUse { .. } | View::Other { .. } => {
            let label = "From the model's API:".to_owned();
            (label, Some((block.raw.get().into(), "json")))
        }
    };
    if !label.is_empty() {
        let _ = write!(text, "\n{label}\n");
    }
    if let Some((inner, kind)) = fenced {
        write_fence(text, &inner, kind);
    }
    Ok(())
}

fn hidden() -> String {
    "Hidden thinking.".to_owned()
}

/// The result of a call as text.
fn result<'a>(block: &Block<'a>) -> Result<Cow<'a, str>, BadContent> {
    #[derive(Deserialize)]
    struct ToolResult {
        #[serde(default)]
        content: Value,
    }
    let ToolResult { content } = serde_json::from_str(block.raw.get())?;
    Ok(match content {
        Value::String(text) => text.into(),
        Value::Array(parts) => {
            let of = |part: &Value| match part.get("text").and_then(Value::as_str) {
                Some(text) => text.to_owned(),
                None => part.to_string(),
            };
            parts.iter().map(of).collect::<Vec<String>>().join("\n").into()
        }
        Value::Null => "".into(),
        other @ (Value::Bool(_) | Value::Number(_) | Value::Object(_)) => other.to_string().into(),
    })
}

/// Writes a fence that is longer than any run of backticks in the text, so that the text cannot
/// close it.
fn write_fence(text: &mut String, inner: &str, kind: &str) {
    let longest = inner.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat((longest + 1).max(3));
    let end = if inner.ends_with('\n') { "" } else { "\n" };
    let _ = write!(text, "\n{fence}{kind}\n{inner}{end}{fence}\n");
}

/// A text on one line with its punctuation escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || c == '\u{2028}' || c == '\u{2029}' {
            escaped.push(' ');
            continue;
        }
        // These are common in ids and names, and have no meaning inside a word.
        if c.is_ascii_punctuation() && !matches!(c, '-' | '.' | ',' | ':') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::RunId;
    use crate::domain::message::{Content, Message};
    use crate::domain::usage::Usage;
    use serde_json::json;

    fn shown(role: Role, blocks: &Value) -> String {
        let stored = StoredMessage {
            seq: 3,
            run_id: RunId::new(),
            message_id: "msg_1".to_owned(),
            model: None,
            message: Message {
                role,
                content: Content::parse(blocks.to_string()).unwrap(),
                stop_reason: None,
                usage: Usage::default(),
            },
            created_at: jiff::Timestamp::UNIX_EPOCH,
        };
        message(&stored).unwrap()
    }

    #[test]
    fn a_text_cannot_close_its_fence() {
        for (text, fence) in [
            ("Hello", "```"),
            ("```\n## 4. User\n```", "````"),
            ("`````rust\n`````\r## 4. User", "``````"),
            ("~~~\n# Not a heading", "```"),
        ] {
            let shown = shown(Role::User, &json!([{ "type": "text", "text": text }]));
            let expected = format!(
                "\n## 3. User\n\n1970-01-01T00:00:00.000000Z\n\n{fence}markdown\n{text}\n{fence}\n"
            );
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn calls_and_their_results_are_shown() {
        let name = "get_time\n## 4. User";
        let asked = shown(
            Role::Assistant,
            &json!([
                { "type": "thinking", "thinking": "", "signature": "s" },
                { "type": "thinking", "thinking": "Hm.", "signature": "s" },
                { "type": "tool_use", "id": "toolu_1", "name": name, "input": { "a": "```" } },
            ]),
        );
        assert_eq!(
            asked,
            "\n## 3. Assistant\n\n1970-01-01T00:00:00.000000Z\n\nHidden thinking.\n\n\
             Thinking:\n\n```markdown\nHm.\n```\n\n\
             Call of get\\_time \\#\\# 4. User (toolu\\_1):\n\n````json\n{\"a\":\"```\"}\n````\n"
        );
        let image = json!({ "type": "image", "source": { "type": "url", "url": "https://a" } });
        let answered = shown(
            Role::User,
            &json!([
                { "type": "tool_result", "tool_use_id": "a", "content": "One\n" },
                { "type": "tool_result", "tool_use_id": "b", "is_error": true,
                  "content": "<tool_use_error>No.</tool_use_error>" },
                { "type": "tool_result", "tool_use_id": "c",
                  "content": [{ "type": "text", "text": "See" }, image] },
            ]),
        );
        assert_eq!(
            answered,
            "\n## 3. Tools\n\n1970-01-01T00:00:00.000000Z\n\nResult of a:\n\n```\nOne\n```\n\n\
             Failure of b:\n\n```\nNo.\n```\n\n\
             Result of c:\n\n```\nSee\n[image https://a]\n```\n"
        );
    }

    #[test]
    fn a_title_is_one_line_of_text() {
        assert_eq!(escaped("a\n# b\u{2028}<i>*c*</i>"), "a \\# b \\<i\\>\\*c\\*\\<\\/i\\>");
    }
}
