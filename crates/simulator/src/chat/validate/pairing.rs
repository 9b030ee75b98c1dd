//! The pairing of calls and results: each call has exactly one result, directly after the call.

use serde_json::{Map, Value};

use super::{Checked, refuse};

pub(super) fn check(request: &Map<String, Value>) -> Checked {
    // The calls that can have a result here, and those of them without one.
    let (mut asked, mut open): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (at, message) in
        request.get("messages").and_then(Value::as_array).into_iter().flatten().enumerate()
    {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            answered(at, id, &asked, &open)?;
            open.retain(|other| *other != id);
            continue;
        }
        all_answered(&open)?;
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        asked = calls.filter_map(|call| call["id"].as_str()).collect();
        open.clone_from(&asked);
    }
    all_answered(&open)
}

fn answered(at: usize, id: &str, asked: &[&str], open: &[&str]) -> Checked {
    if asked.is_empty() {
        return refuse(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding \
             message with 'tool_calls'.",
        );
    }
    if !asked.contains(&id) {
        return refuse(format!(
            "Invalid parameter: 'tool_call_id' of '{id}' not found in 'tool_calls' of previous \
             message."
        ));
    }
    if !open.contains(&id) {
        return refuse(format!("Duplicate value for 'tool_call_id' of '{id}' in message[{at}]"));
    }
    Ok(())
}

fn all_answered(open: &[&str]) -> Checked {
    if open.is_empty() {
        return Ok(());
    }
    refuse(format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to \
         each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    ))
}
