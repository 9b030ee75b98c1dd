//! Reasoning items, whose encrypted content the server verifies when it comes back.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// The item of this reasoning.
pub(super) fn item(id: &str, thinking: &str) -> Value {
    let summary = if thinking.is_empty() {
        json!([])
    } else {
        json!([{ "type": "summary_text", "text": thinking }])
    };
    json!({ "id": id, "type": "reasoning", "summary": summary,
            "encrypted_content": encrypted(id, &summary) })
}

/// True if the item is as it was sent.
pub(super) fn is_unchanged(item: &Value) -> bool {
    let id = item["id"].as_str().unwrap_or_default();
    item["encrypted_content"].as_str() == Some(&encrypted(id, &item["summary"]))
}

fn encrypted(id: &str, summary: &Value) -> String {
    let hash = Sha256::digest(format!("{id}{summary}"));
    hash.iter().fold("gAAAAA".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
