//! Compares the history that the events describe with the stored messages.

use std::collections::BTreeMap;

use anyhow::Context as _;
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// Returns the last text of a user in a request to the model.
pub(crate) fn user_text(body: &Bytes) -> anyhow::Result<String> {
    let body: Value = serde_json::from_slice(body)?;
    let messages = body["messages"].as_array().context("the request has no messages")?;
    let last = messages.iter().rev().filter(|message| message["role"] == "user").find_map(|user| {
        let blocks = user["content"].as_array()?;
        let text = blocks.iter().find(|block| block["type"] == "text")?;
        text["text"].as_str().map(str::to_owned)
    });
    last.context("the request has no text of a user")
}

/// Returns whether a request to the model asks for a summary of the history.
pub(crate) fn asks_for_a_summary(body: &Bytes) -> bool {
    body.ends_with(br#"],"compaction":{"type":"summarize"}}"#)
}

/// Returns the first difference, if any.
pub(crate) fn difference(events: &[Value], messages: &[Value]) -> Option<String> {
    let mut rebuilt = rebuild(events);
    let mut stored: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for item in messages {
        let message = &item["message"];
        let blocks = message["content"].as_array().cloned().unwrap_or_default();
        let blocks: Vec<Value> = blocks.iter().map(plain).collect();
        stored.entry(run_of(item)).or_default().push(json!([message["role"], blocks]));
    }
    // The message of a run that never started has an event, but is not in the history.
    rebuilt.retain(|run, turns| turns.len() > 1 || stored.contains_key(run));
    if rebuilt.keys().ne(stored.keys()) {
        return Some(format!("of {} runs, not of {}", rebuilt.len(), stored.len()));
    }
    for (run, turns) in &rebuilt {
        let stored = stored.get(run)?;
        if turns != stored {
            let at = turns.iter().zip(stored).position(|(rebuilt, stored)| rebuilt != stored);
            let at = at.unwrap_or(turns.len().min(stored.len()));
            let (rebuilt, stored) = (turns.get(at), stored.get(at));
            return Some(format!("in {run} at {at}: {rebuilt:?} and not {stored:?}"));
        }
    }
    None
}

/// Rebuilds the messages of each run from its events: role and blocks, one entry per message.
fn rebuild(events: &[Value]) -> BTreeMap<String, Vec<Value>> {
    let mut runs: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut open: BTreeMap<String, OpenTurn> = BTreeMap::new();
    for event in events {
        let run = run_of(event);
        let turns = runs.entry(run.clone()).or_default();
        let open = open.entry(run).or_default();
        match event["type"].as_str().unwrap_or_default() {
            "user.message" => turns.push(json!(["user", event["content"]])),
            "agent.message" => {
                open.blocks.extend(event["content"].as_array().cloned().unwrap_or_default());
            }
            "agent.tool_use" => {
                open.calls.push(event["id"].clone());
                open.blocks.push(plain(&with_type(event, "tool_use")));
            }
            "agent.tool_result" => {
                open.results
                    .push((event["tool_use_id"].clone(), plain(&with_type(event, "tool_result"))));
            }
            "span.model_request_end" if !open.blocks.is_empty() => {
                turns.push(json!(["assistant", std::mem::take(&mut open.blocks)]));
            }
            "span.model_request_start" | "session.status_idle" => turns.extend(open.take_results()),
            _ => {}
        }
    }
    runs
}

#[derive(Debug, Default)]
struct OpenTurn {
    blocks: Vec<Value>,
    calls: Vec<Value>,
    results: Vec<(Value, Value)>,
}

impl OpenTurn {
    /// Returns the message with the results, in the order of the calls.
    fn take_results(&mut self) -> Option<Value> {
        if self.results.is_empty() {
            return None;
        }
        let calls = std::mem::take(&mut self.calls);
        let mut results = std::mem::take(&mut self.results);
        results.sort_by_key(|(id, _)| calls.iter().position(|call| call == id));
        let results: Vec<Value> = results.into_iter().map(|(_, result)| result).collect();
        Some(json!(["user", results]))
    }
}

fn run_of(item: &Value) -> String {
    item["run_id"].as_str().unwrap_or_default().to_owned()
}

fn with_type(event: &Value, kind: &str) -> Value {
    let mut block = event.clone();
    block["type"] = json!(kind);
    block
}

/// Returns a block without the fields that differ between events and messages.
fn plain(block: &Value) -> Value {
    let fields: &[&str] = match block["type"].as_str().unwrap_or_default() {
        "tool_use" => &["type", "id", "name", "input"],
        "tool_result" => &["type", "tool_use_id"],
        _ => return block.clone(),
    };
    let mut plain: Map<String, Value> =
        fields.iter().map(|field| ((*field).to_owned(), block[*field].clone())).collect();
    if block["type"] == "tool_result" {
        let content = &block["content"];
        let parts = content.as_array().into_iter().flatten();
        let texts: String = parts.filter_map(|part| part["text"].as_str()).collect();
        let text = content.as_str().map_or(texts, str::to_owned);
        plain.insert("text".to_owned(), json!(text));
        plain.insert("is_error".to_owned(), json!(block["is_error"].as_bool().unwrap_or(false)));
    }
    Value::Object(plain)
}
