//! Chat Completions as one JSON object or in chunks, from a message.

use serde_json::{Map, Value, json};

use super::validate::returns_reasoning;
use crate::emit::{Wire, pieces};
use crate::message::{Message, Part};

/// The creation time of all replies, fixed so that two simulators agree.
const CREATED: u64 = 1_767_225_600;

/// The body of a reply without streaming.
pub(crate) fn to_json(message: &Message) -> Value {
    let calls: Vec<Value> = calls(message)
        .map(|ClientCall { id, name, input }| {
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": input } })
        })
        .collect();
    let said = json!({ "role": "assistant", "content": text(message), "refusal": null });
    let called = if calls.is_empty() { json!({}) } else { json!({ "tool_calls": calls }) };
    let choice = json!({ "index": 0, "message": joined(&[said, called]), "logprobs": null,
                         "finish_reason": finish_reason(message) });
    let more = json!({ "choices": [choice], "usage": usage(&message.usage) });
    joined(&[base(message, "chat.completion"), more])
}

/// The stream of a message, in deltas of `chunk` characters.
pub(crate) fn stream(message: &Message, chunk: usize, include_usage: bool) -> Wire {
    let mut wire = Wire::default();
    let empty = if include_usage { json!({ "usage": null }) } else { json!({}) };
    let mut send = |delta: Value, finish_reason: Option<&str>| {
        let choice =
            json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason });
        let piece = base(message, "chat.completion.chunk");
        wire.data(&joined(&[piece, json!({ "choices": [choice] }), empty.clone()]));
    };
    let opening = text(message).map(|_| "");
    send(json!({ "role": "assistant", "content": opening, "refusal": null }), None);
    for part in &message.content {
        let (field, text) = match part {
            Part::Text { text, .. } => ("content", text),
            Part::Thinking { thinking, .. } if returns_reasoning(&message.model) => {
                ("reasoning_content", thinking)
            }
            Part::Thinking { .. } | Part::Call { .. } | Part::Compaction(_) | Part::Raw(_) => {
                continue;
            }
        };
        for piece in pieces(text, chunk) {
            send(json!({ field: piece }), None);
        }
    }
    for (index, ClientCall { id, name, input }) in calls(message).enumerate() {
        let function = json!({ "name": name, "arguments": "" });
        let call = json!({ "index": index, "id": id, "type": "function", "function": function });
        send(json!({ "tool_calls": [call] }), None);
        for piece in pieces(input, chunk) {
            let call = json!({ "index": index, "function": { "arguments": piece } });
            send(json!({ "tool_calls": [call] }), None);
        }
    }
    send(json!({}), Some(finish_reason(message)));
    if include_usage {
        let last = base(message, "chat.completion.chunk");
        let counts = json!({ "choices": [], "usage": usage(&message.usage) });
        wire.data(&joined(&[last, counts]));
    }
    wire.raw(b"data: [DONE]\n\n");
    wire
}

fn base(message: &Message, object: &str) -> Value {
    json!({
        "id": message.id.replacen("msg_01", "chatcmpl-", 1),
        "object": object,
        "created": CREATED,
        "model": message.model,
        "service_tier": "default",
        "system_fingerprint": "fp_simulator",
    })
}

/// Merges the members of several objects into one.
fn joined(objects: &[Value]) -> Value {
    let members = objects.iter().filter_map(Value::as_object).flatten();
    members.map(|(field, value)| (field.clone(), value.clone())).collect()
}

/// Returns the text of the message, if it has any.
fn text(message: &Message) -> Option<String> {
    let texts = message.content.iter().filter_map(|part| match part {
        Part::Text { text, .. } => Some(text.as_str()),
        Part::Thinking { .. } | Part::Call { .. } | Part::Compaction(_) | Part::Raw(_) => None,
    });
    Some(texts.collect::<String>()).filter(|text| !text.is_empty())
}

/// A call of a client tool.
struct ClientCall<'a> {
    id: String,
    name: &'a str,
    /// The arguments, as JSON.
    input: &'a str,
}

/// Returns the calls of client tools.
fn calls(message: &Message) -> impl Iterator<Item = ClientCall<'_>> {
    message.content.iter().filter_map(|part| match part {
        Part::Call { kind: "tool_use", id, name, input } => {
            Some(ClientCall { id: id.replacen("toolu_01", "call_", 1), name, input })
        }
        Part::Call { .. }
        | Part::Text { .. }
        | Part::Thinking { .. }
        | Part::Compaction(_)
        | Part::Raw(_) => None,
    })
}

fn finish_reason(message: &Message) -> &str {
    match message.stop_reason.as_str() {
        "end_turn" | "stop_sequence" => "stop",
        "tool_use" => "tool_calls",
        "max_tokens" | "model_context_window_exceeded" => "length",
        "refusal" => "content_filter",
        other => other,
    }
}

/// Converts the counts. In this protocol the prompt's count includes cached tokens.
fn usage(counts: &Map<String, Value>) -> Value {
    let count = |field: &str| counts.get(field).and_then(Value::as_u64).unwrap_or_default();
    let cached = count("cache_read_input_tokens");
    let prompt = count("input_tokens") + count("cache_creation_input_tokens") + cached;
    let output = count("output_tokens");
    let details = counts.get("output_tokens_details");
    let thinking = details.and_then(|details| details["thinking_tokens"].as_u64());
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": { "cached_tokens": cached },
        "completion_tokens_details": { "reasoning_tokens": thinking.unwrap_or_default() },
    })
}
