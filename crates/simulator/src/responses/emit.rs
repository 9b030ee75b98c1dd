//! Responses as one JSON object or as a stream of events, from a message.

use serde_json::{Map, Value, json};

use super::reasoning;
use crate::emit::{Wire, pieces};
use crate::message::{Message, Part};

/// The creation time of all replies, fixed so that two simulators agree.
const CREATED: u64 = 1_767_225_600;

/// The body of a reply without streaming.
pub(crate) fn to_json(message: &Message) -> Value {
    response(message, status(message), &items(message), &usage(&message.usage))
}

/// The stream of a message, in deltas of `chunk` characters.
pub(crate) fn stream(message: &Message, chunk: usize) -> Wire {
    let mut events = Events { wire: Wire::default(), number: 0 };
    let opening = response(message, "in_progress", &[], &Value::Null);
    events.send("response.created", json!({ "response": opening }));
    events.send("response.in_progress", json!({ "response": opening }));
    let items = items(message);
    for (index, item) in items.iter().enumerate() {
        events.item(index, item, chunk);
    }
    let status = status(message);
    let closing = response(message, status, &items, &usage(&message.usage));
    events.send(&format!("response.{status}"), json!({ "response": closing }));
    events.wire
}

struct Events {
    wire: Wire,
    number: u64,
}

impl Events {
    fn send(&mut self, kind: &str, members: Value) {
        let mut event = json!({ "type": kind, "sequence_number": self.number });
        self.number += 1;
        if let (Value::Object(event), Value::Object(members)) = (&mut event, members) {
            event.extend(members);
        }
        self.wire.event(kind, &event);
    }

    fn item(&mut self, index: usize, item: &Value, chunk: usize) {
        let mut opening = item.clone();
        let (kind, place, text) = match item["type"].as_str() {
            Some("message") => {
                set(&mut opening, "content", json!([]));
                ("response.output_text", "content_index", "/content/0/text")
            }
            Some("reasoning") => {
                set(&mut opening, "summary", json!([]));
                set(&mut opening, "encrypted_content", json!("gAAAAA"));
                ("response.reasoning_summary_text", "summary_index", "/summary/0/text")
            }
            _ => {
                set(&mut opening, "arguments", json!(""));
                ("response.function_call_arguments", "", "/arguments")
            }
        };
        let text = item.pointer(text).and_then(Value::as_str).unwrap_or_default();
        self.send("response.output_item.added", json!({ "output_index": index, "item": opening }));
        let with = |member: &str, text: &str| {
            let mut members = json!({ "item_id": item["id"], "output_index": index });
            if !place.is_empty() {
                set(&mut members, place, json!(0));
            }
            set(&mut members, member, json!(text));
            members
        };
        for piece in pieces(text, chunk) {
            self.send(&format!("{kind}.delta"), with("delta", piece));
        }
        let whole = if item["type"] == "function_call" { "arguments" } else { "text" };
        if !text.is_empty() {
            self.send(&format!("{kind}.done"), with(whole, text));
        }
        self.send("response.output_item.done", json!({ "output_index": index, "item": item }));
    }
}

/// Sets a member of an object.
fn set(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(name.to_owned(), value);
    }
}

fn id(message: &Message, prefix: &str, index: usize) -> String {
    format!("{prefix}{}{index}", message.id.trim_start_matches("msg_01"))
}

/// The items of the output.
fn items(message: &Message) -> Vec<Value> {
    let parts = message.content.iter().enumerate();
    parts.filter_map(|(index, part)| {
        Some(match part {
            Part::Text { text, .. } => {
                let content =
                    json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] });
                json!({ "id": id(message, "msg_", index), "type": "message",
                        "status": "completed", "role": "assistant", "content": [content] })
            }
            Part::Thinking { thinking, .. } => {
                reasoning::item(&id(message, "rs_", index), thinking)
            }
            Part::Call { kind: "tool_use", id: call, name, input } => json!({
                "id": id(message, "fc_", index), "type": "function_call", "status": "completed",
                "call_id": call.replacen("toolu_01", "call_", 1), "name": name, "arguments": input,
            }),
            Part::Call { .. } | Part::Compaction(_) | Part::Raw(_) => return None,
        })
    })
    .collect()
}

fn status(message: &Message) -> &'static str {
    match message.stop_reason.as_str() {
        "max_tokens" | "model_context_window_exceeded" | "refusal" => "incomplete",
        _ => "completed",
    }
}

fn response(message: &Message, status: &str, items: &[Value], usage: &Value) -> Value {
    let reason =
        if message.stop_reason == "refusal" { "content_filter" } else { "max_output_tokens" };
    let details = if status == "incomplete" { json!({ "reason": reason }) } else { Value::Null };
    json!({
        "id": message.id.replacen("msg_01", "resp_", 1),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": null,
        "incomplete_details": details,
        "model": message.model,
        "output": items,
        "parallel_tool_calls": true,
        "previous_response_id": null,
        "store": false,
        "usage": usage,
    })
}

/// Converts the counts. In this protocol the input's count includes cached tokens.
fn usage(counts: &Map<String, Value>) -> Value {
    let count = |field: &str| counts.get(field).and_then(Value::as_u64).unwrap_or_default();
    let cached = count("cache_read_input_tokens");
    let input = count("input_tokens") + count("cache_creation_input_tokens") + cached;
    let output = count("output_tokens");
    let details = counts.get("output_tokens_details");
    let thinking = details.and_then(|details| details["thinking_tokens"].as_u64());
    json!({
        "input_tokens": input,
        "input_tokens_details": { "cached_tokens": cached },
        "output_tokens": output,
        "output_tokens_details": { "reasoning_tokens": thinking.unwrap_or_default() },
        "total_tokens": input + output,
    })
}

/// The data of an `error` event, from the body of an error.
pub(crate) fn error_event(error: &Value) -> Value {
    let error = &error["error"];
    let code = if error["code"].is_null() { &error["type"] } else { &error["code"] };
    json!({ "type": "error", "code": code, "message": error["message"], "param": null,
            "sequence_number": 0 })
}
