//! Scripts for the simulated model.

use serde_json::{Value, json};

/// A script that answers every message with these replies, one per round.
pub(crate) fn replies(replies: &[Value]) -> Value {
    json!({ "conversations": [{ "replies": replies }], "otherwise": "refuse" })
}

/// A script whose reply to the message `hang` never ends; every other message is answered.
pub(crate) fn hangs_first() -> Value {
    json!({ "conversations": [
        { "when": "hang", "replies": [{ "content": [{ "type": "text", "text": "Well" }],
                                        "hang_after": 4 }] },
        { "replies": [says("You said {{user}}.")] },
    ], "otherwise": "refuse" })
}

/// A reply that sends the beginning of a text and then hangs.
pub(crate) fn stops_short(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "chunk": 5, "hang_after": 5 })
}

/// A reply of one text.
pub(crate) fn says(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// A reply of one tool call.
#[expect(clippy::needless_pass_by_value, reason = "callers write the input in place")]
pub(crate) fn calls(name: &str, input: Value) -> Value {
    json!({ "content": [{ "type": "tool_use", "name": name, "input": input }] })
}
