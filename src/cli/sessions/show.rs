//! A session, and what was said in it.

use serde_json::{Value, json};

use super::{print_json, word};
use crate::cli::client::Client;
use crate::cli::output;
use crate::cli::terminal::{one_line, safe};

/// Prints a session and its history.
pub(super) async fn show(client: &Client, id: &str, json: bool) -> anyhow::Result<()> {
    let session = client.get(&["sessions", id]).send().await?;
    let path = ["sessions", id, "messages"];
    let (messages, _) = client.list(&path, &[("view", "plain")], usize::MAX).await?;
    if json {
        print_json(&json!({ "session": session, "messages": messages }));
        return Ok(());
    }
    for key in ["id", "title", "status", "model", "permission_mode", "created_at", "updated_at"] {
        let value = one_line(&word(&session, key));
        if !value.is_empty() {
            output::say(&format!("{:<16} {value}", key.trim_end_matches("_at").replace('_', " ")));
        }
    }
    let usage = &session["usage"];
    let tokens = ["input_tokens", "output_tokens"].map(|key| usage[key].as_i64().unwrap_or(0));
    output::say(&format!("tokens           {} in, {} out", tokens[0], tokens[1]));
    for item in &messages {
        let is_user = item["type"] == "user";
        for block in item["message"]["content"].as_array().into_iter().flatten() {
            show_block(is_user, block);
        }
    }
    Ok(())
}

fn show_block(is_user: bool, block: &Value) {
    match block["type"].as_str().unwrap_or_default() {
        "text" => {
            let text = word(block, "text");
            let text = safe(&text);
            output::say("");
            for line in text.lines() {
                output::say(&if is_user { format!("> {line}") } else { line.to_owned() });
            }
        }
        "tool_use" | "server_tool_use" => {
            output::say(&one_line(&format!("· {} {}", word(block, "name"), block["input"])));
        }
        "tool_result" if block["is_error"] == true => {
            output::say(&one_line(&format!("  failed: {}", text(&block["content"]))));
        }
        _ => {}
    }
}

/// The text of a result, which is a text or blocks.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        other => other.as_array().into_iter().flatten().map(|block| word(block, "text")).collect(),
    }
}
