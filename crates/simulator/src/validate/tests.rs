//! Each rule: the exact text of its refusal, and the same request without the fault.

mod cache;
mod compaction;
mod context;
mod deferred;
mod fields;
mod history;
mod media;
mod output;
mod server_tools;
mod strict;
mod thinking_blocks;
mod tools;

use serde_json::{Value, json};

use super::{Endpoint, Rules, check};
use crate::betas::Betas;
use crate::headers::Version;
use crate::refusal::Refusal;
use crate::request::ApiRequest;

fn rules() -> Rules {
    Rules {
        endpoint: Endpoint::Messages,
        version: Version::Y2023,
        betas: Betas::default(),
        refuse_unknown_fields: true,
        max_input_tokens: 1_000_000,
        tokens: 100,
    }
}

fn verdict(body: &Value, rules: &Rules) -> Result<(), Refusal> {
    check(ApiRequest(body.as_object().unwrap()), rules)
}

/// The message of the refusal; empty for an accepted request.
fn refusal(body: &Value) -> String {
    verdict(body, &rules()).err().map_or_else(String::new, |refusal| refusal.message)
}

/// An accepted request, with `fields` added or replaced.
fn request(fields: &Value) -> Value {
    let mut body = json!({
        "model": "simulator",
        "max_tokens": 100,
        "messages": [{ "role": "user", "content": "hello" }],
    });
    for (field, value) in fields.as_object().unwrap() {
        body[field] = value.clone();
    }
    body
}

/// A request with a tool and this history.
fn history(messages: &Value) -> Value {
    request(&json!({ "tools": [tool("a")], "messages": messages }))
}

fn tool(name: &str) -> Value {
    json!({ "name": name, "input_schema": { "type": "object" } })
}

fn user(content: impl Into<Value>) -> Value {
    json!({ "role": "user", "content": content.into() })
}

fn assistant(content: impl Into<Value>) -> Value {
    json!({ "role": "assistant", "content": content.into() })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn call(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "a", "input": {} })
}

fn result(id: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": "ok" })
}

fn betas(names: &str) -> Betas {
    Betas::read(names).unwrap()
}
