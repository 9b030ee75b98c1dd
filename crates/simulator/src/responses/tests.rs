//! Each rule: the text of its refusal, and the same request without the fault.

use serde_json::{Value, json};

use super::{reasoning, stream, to_json, validate};
use crate::Options;
use crate::message::{Message, Part};

/// The message of the refusal; empty for an accepted request.
fn refusal(body: &Value) -> String {
    let refused = validate::check(body.as_object().unwrap(), &Options::default()).err();
    refused.map_or_else(String::new, |refusal| refusal.message)
}

/// An accepted request, with `fields` added or replaced.
fn request(fields: &Value) -> Value {
    let tool = json!({ "type": "function", "name": "a", "parameters": { "type": "object" },
                       "strict": false });
    let mut body = json!({ "model": "gpt-5.4", "store": false, "tools": [tool],
                           "include": ["reasoning.encrypted_content"], "input": [user()] });
    for (field, value) in fields.as_object().unwrap() {
        body[field] = value.clone();
    }
    body
}

fn input(items: &Value) -> Value {
    request(&json!({ "input": items }))
}

fn user() -> Value {
    json!({ "role": "user", "content": [{ "type": "input_text", "text": "hello" }] })
}

fn call(id: &str) -> Value {
    json!({ "type": "function_call", "call_id": id, "name": "a", "arguments": "{}" })
}

fn output(id: &str) -> Value {
    json!({ "type": "function_call_output", "call_id": id, "output": "ok" })
}

#[test]
fn good_requests_are_accepted() {
    let said = json!({ "role": "assistant", "content": "Well." });
    let thought = reasoning::item("rs_1", "Hm.");
    for body in [
        request(&json!({})),
        request(&json!({ "input": "hello", "reasoning": { "effort": "low" } })),
        request(&json!({ "tool_choice": { "type": "function", "name": "a" } })),
        input(&json!([user(), thought, said, user()])),
        input(&json!([user(), thought, call("1"), call("2"), output("2"), output("1")])),
    ] {
        assert_eq!(refusal(&body), "", "{body}");
    }
}

#[test]
fn every_fault_is_refused() {
    let thought = reasoning::item("rs_1", "Hm.");
    let mut changed = thought.clone();
    changed["summary"] = json!([]);
    let mut plain = thought.clone();
    plain.as_object_mut().unwrap().shift_remove("encrypted_content");
    let image = json!({ "role": "user", "content": [{ "type": "image_url", "image_url": "x" }] });
    for (body, expected) in [
        (request(&json!({ "stop": ["a"] })), "Unknown parameter: 'stop'."),
        (request(&json!({ "messages": [] })), "Unknown parameter: 'messages'."),
        (request(&json!({ "previous_response_id": "resp_1" })), "not found"),
        (request(&json!({ "max_output_tokens": 15 })), "Expected a value >= 16"),
        (request(&json!({ "reasoning": { "effort": "max" } })), "Invalid value: \"max\"."),
        (request(&json!({ "include": ["odd"] })), "Invalid value: \"odd\"."),
        (request(&json!({ "tool_choice": "any" })), "Invalid value: 'any'"),
        (request(&json!({ "model": "claude-opus-5-5" })), "does not exist"),
        (input(&json!([])), "Invalid 'input': empty array."),
        (input(&json!([image])), "Invalid value: 'image_url'"),
        (input(&json!([user(), call("1")])), "No tool output found for function call 1."),
        (
            input(&json!([user(), output("1")])),
            "No tool call found for function call output with call_id 1.",
        ),
        (
            input(&json!([user(), output("1"), call("1")])),
            "No tool call found for function call output with call_id 1.",
        ),
        (
            input(&json!([call("1"), output("1"), output("1")])),
            "Duplicate function call output with call_id 1.",
        ),
        (input(&json!([user(), thought])), "without its required following item."),
        (input(&json!([thought, user()])), "without its required following item."),
        (input(&json!([changed, call("1"), output("1")])), "could not be verified."),
        (input(&json!([plain, call("1"), output("1")])), "Items are not persisted"),
        (
            input(&json!([{ "type": "message", "role": "tool", "content": "a" }])),
            "Invalid value: 'tool'.",
        ),
    ] {
        let message = refusal(&body);
        assert!(message.contains(expected), "{message:?} for {body}");
    }
}

#[test]
fn the_last_event_of_a_stream_has_the_reply_without_streaming() {
    let usage = json!({ "input_tokens": 10, "cache_read_input_tokens": 30, "output_tokens": 5 });
    let message = Message {
        id: "msg_01abc".to_owned(),
        model: "gpt-5.4".to_owned(),
        content: vec![
            Part::Thinking { thinking: "Hm.".to_owned(), signature: String::new() },
            Part::Text { text: "Both of them.".to_owned(), citations: Vec::new() },
            Part::Call {
                kind: "tool_use",
                id: "toolu_01x".to_owned(),
                name: "a".to_owned(),
                input: "{}".to_owned(),
            },
        ],
        stop_reason: "tool_use".to_owned(),
        stop_sequence: None,
        stop_details: None,
        usage: usage.as_object().unwrap().clone(),
        context_management: None,
        container: None,
    };
    let text = String::from_utf8(stream(&message, 4).bytes).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let events: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let last = events.last().unwrap();
    assert_eq!(
        (&last["type"], &last["response"]),
        (&json!("response.completed"), &to_json(&message))
    );
    assert_eq!(last["response"]["usage"]["input_tokens"], 40);
    let output = &last["response"]["output"];
    assert!(reasoning::is_unchanged(&output[0]), "{output}");
    assert_eq!(output[2]["call_id"], "call_x");
}
