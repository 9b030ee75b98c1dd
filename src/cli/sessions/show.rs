//! `twostep sessions show`.

use serde_json::{Value, json};

use super::{print_json, status, time};
use crate::cli::client::Client;
use crate::cli::json::{items, non_empty_string, string};
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
        let value = match key {
            "status" => status(&session).to_owned(),
            "created_at" | "updated_at" => format!("{} UTC", time(string(&session, key))),
            _ => one_line(string(&session, key)),
        };
        if !value.is_empty() {
            output::print_line(&format!(
                "{:<16} {value}",
                key.trim_end_matches("_at").replace('_', " ")
            ));
        }
    }
    if let Some(agent) = session.get("agent") {
        let version = agent.get("version").map(Value::to_string).unwrap_or_default();
        output::print_line(&one_line(&format!(
            "agent            {}@{version}",
            string(agent, "name")
        )));
    }
    let usage = session.get("usage");
    let tokens = |key| usage.and_then(|usage| usage.get(key)).and_then(Value::as_i64).unwrap_or(0);
    let (input, output) = (tokens("input_tokens"), tokens("output_tokens"));
    output::print_line(&format!("tokens           {input} in, {output} out"));
    for item in &messages {
        let is_user = string(item, "type") == "user";
        let Some(message) = item.get("message") else { continue };
        for block in items(message, "content") {
            show_block(is_user, block);
        }
        if message.get("interrupted") == Some(&Value::Bool(true)) {
            output::print_line("[interrupted]");
        }
    }
    Ok(())
}

fn show_block(is_user: bool, block: &Value) {
    match string(block, "type") {
        "text" => {
            let text = safe(string(block, "text"));
            output::print_line("");
            for line in text.lines() {
                output::print_line(&if is_user { format!("> {line}") } else { line.to_owned() });
            }
        }
        "tool_use" | "server_tool_use" => {
            let input = block.get("input").unwrap_or(&Value::Null);
            output::print_line(&one_line(&format!("· {} {input}", string(block, "name"))));
        }
        "tool_result" if block.get("is_error") == Some(&Value::Bool(true)) => {
            output::print_line(&one_line(&format!("  failed: {}", text(block))));
        }
        _ => {}
    }
}

/// The text of a result, which is a text or blocks.
fn text(result: &Value) -> String {
    let blocks = items(result, "content").iter().map(|block| string(block, "text"));
    non_empty_string(result, "content").map_or_else(|| blocks.collect(), str::to_owned)
}
