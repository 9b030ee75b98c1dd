//! Tools that access the web.

mod custom_endpoints;
mod dns_server;
mod fetch;
mod fetch_prompt;
mod flags;
mod private_addresses;
mod search;
mod site;
mod unstorable_text;
mod url_leaks;
mod url_provenance;

use serde_json::{Value, json};

use crate::support::Session;

/// A reply of the model with several calls.
fn round_of_calls(calls: &[(&str, Value)]) -> Value {
    let block =
        |(name, input): &(&str, Value)| json!({ "type": "tool_use", "name": name, "input": input });
    json!({ "content": calls.iter().map(block).collect::<Vec<_>>() })
}

/// The results of the first round: whether each failed, and its text.
async fn results(session: &Session<'_>) -> Vec<(bool, String)> {
    let history = session.history().await;
    let blocks = history[2]["message"]["content"].as_array().unwrap();
    let result = |block: &Value| {
        let is_error = block["is_error"].as_bool().unwrap_or_default();
        (is_error, block["content"].as_str().unwrap().to_owned())
    };
    blocks.iter().map(result).collect()
}

fn failed(why: &str) -> (bool, String) {
    (true, format!("<tool_use_error>Error calling tool (WebFetch): {why}</tool_use_error>"))
}
