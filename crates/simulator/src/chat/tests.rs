//! Each rule: the text of its refusal, and the same request without the fault.

use serde_json::{Map, Value, json};

use super::{error_body, read, stream, to_json, validate};
use crate::Options;
use crate::message::{Message, Part};

/// The message of the refusal; empty for an accepted request.
fn refusal(body: &Value) -> String {
    let refused = validate::check(body.as_object().unwrap(), &Options::default()).err();
    refused.map_or_else(String::new, |refusal| refusal.message)
}

/// An accepted request, with `fields` added or replaced.
fn request(fields: &Value) -> Value {
    let mut body = json!({
        "model": "gpt-4.1",
        "max_tokens": 100,
        "tools": [tool("a")],
        "messages": [user("hello")],
    });
    for (field, value) in fields.as_object().unwrap() {
        body[field] = value.clone();
    }
    body
}

fn history(messages: &Value) -> Value {
    request(&json!({ "messages": messages }))
}

fn tool(name: &str) -> Value {
    json!({ "type": "function", "function": { "name": name, "parameters": { "type": "object" } } })
}

fn user(content: impl Into<Value>) -> Value {
    json!({ "role": "user", "content": content.into() })
}

fn calling(ids: &[&str]) -> Value {
    let call = |id: &&str| json!({ "id": id, "type": "function", "function": { "name": "a", "arguments": "{}" } });
    json!({ "role": "assistant", "content": null,
            "tool_calls": ids.iter().map(call).collect::<Vec<_>>() })
}

fn answer(id: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "ok" })
}

fn assert_refused(table: &[(Value, &str)]) {
    for (body, expected) in table {
        let message = refusal(body);
        assert!(message.contains(expected), "{message:?} for {body}");
    }
}

#[test]
fn good_requests_are_accepted() {
    let image =
        json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" } });
    let text = json!({ "type": "text", "text": "look" });
    for body in [
        request(&json!({})),
        request(&json!({ "stream": true, "stream_options": { "include_usage": true } })),
        request(&json!({ "stop": ["a", "b", "c", "d"], "tool_choice": "required" })),
        request(&json!({ "tool_choice": { "type": "function", "function": { "name": "a" } } })),
        history(&json!([{ "role": "system", "content": "Be brief." }, user("a"), user("b")])),
        history(&json!([user("a"), calling(&["1", "2"]), answer("2"), answer("1"), user("b")])),
        history(&json!([user(json!([text, image]))])),
    ] {
        assert_eq!(refusal(&body), "", "{body}");
    }
}

#[test]
fn a_strict_response_format_requires_all_properties() {
    let with_schema = |schema: Value| {
        let named = json!({ "name": "output", "strict": true, "schema": schema });
        request(&json!({ "reasoning_effort": "high",
            "response_format": { "type": "json_schema", "json_schema": named } }))
    };
    let closed = |required: Value| {
        json!({ "type": "object", "properties": { "a": { "type": "string" } },
                "required": required, "additionalProperties": false })
    };
    assert_eq!(refusal(&with_schema(closed(json!(["a"])))), "");
    let open = json!({ "type": "object", "properties": {} });
    assert_refused(&[
        (with_schema(closed(json!([]))), "every key in properties. Missing 'a'."),
        (
            with_schema(json!({ "type": "array", "items": open })),
            "'additionalProperties' is required",
        ),
        (with_schema(Value::Null), "schema must be a JSON Schema"),
        (
            request(&json!({ "response_format": { "type": "json_schema" } })),
            "Missing required parameter: 'response_format.json_schema'.",
        ),
        (request(&json!({ "response_format": "json" })), "'response_format.type'"),
        (request(&json!({ "reasoning_effort": "max" })), "Invalid value: \"max\"."),
    ]);
}

#[test]
fn every_call_has_one_result_and_every_result_a_call() {
    let unanswered = "must be followed by tool messages responding to each 'tool_call_id'. The \
                      following tool_call_ids did not have response messages: ";
    assert_refused(&[
        (history(&json!([user("a"), calling(&["1", "2"])])), &format!("{unanswered}1, 2")),
        (
            history(&json!([user("a"), calling(&["1", "2"]), answer("1"), user("b"), answer("2")])),
            &format!("{unanswered}2"),
        ),
        (history(&json!([user("a"), answer("1")])), "must be a response to a preceeding message"),
        (
            history(&json!([user("a"), calling(&["1"]), answer("2")])),
            "'tool_call_id' of '2' not found in 'tool_calls' of previous message.",
        ),
        (
            history(&json!([user("a"), calling(&["1", "2"]), answer("1"), answer("1")])),
            "Duplicate value for 'tool_call_id' of '1' in message[3]",
        ),
    ]);
}

#[test]
fn messages_have_a_role_and_the_content_that_it_allows() {
    let mut odd_name = calling(&["1"]);
    odd_name["tool_calls"][0]["function"]["name"] = "a.b".into();
    let mut no_text = calling(&["1"]);
    no_text["tool_calls"][0]["function"]["arguments"] = json!({});
    let shown = json!([{ "type": "image_url", "image_url": { "url": "https://example.com" } }]);
    let shows = json!({ "role": "tool", "tool_call_id": "1", "content": shown });
    assert_refused(&[
        (history(&json!([])), "Invalid 'messages': empty array"),
        (history(&json!([{ "role": "robot", "content": "a" }])), "Invalid value: 'robot'"),
        (history(&json!([{ "content": "a" }])), "Missing required parameter: 'messages[0].role'."),
        (history(&json!([user(Value::Null)])), "expected a string, got null"),
        (
            history(&json!([{ "role": "user", "content": "a", "id": 1 }])),
            "Unknown parameter: 'messages[0].id'.",
        ),
        (
            history(&json!([{ "role": "assistant", "content": "a", "tool_calls": [] }])),
            "Invalid 'messages[0].tool_calls': empty array",
        ),
        (history(&json!([calling(&[&"1".repeat(41)])])), "maximum length 40"),
        (history(&json!([odd_name])), "tool_calls[0].function.name': string does not match"),
        (history(&json!([no_text])), "tool_calls[0].function.arguments': expected a string"),
        (history(&json!([calling(&["1"]), shows])), "Invalid value: 'image_url'"),
        (
            history(&json!([user(json!([{ "type": "image", "source": {} }]))])),
            "Invalid value: 'image'",
        ),
    ]);
}

#[test]
fn fields_are_known_and_consistent() {
    let odd = tool("a.b");
    let mut list = tool("a");
    list["function"]["parameters"] = json!({ "type": "array" });
    let mut without = request(&json!({ "tool_choice": "none" }));
    without.as_object_mut().unwrap().shift_remove("tools");
    assert_refused(&[
        (request(&json!({ "model": null })), "you must provide a model parameter"),
        (request(&json!({ "model": "claude-opus-5-5" })), "does not exist"),
        (request(&json!({ "system": "a" })), "Unknown parameter: 'system'."),
        (request(&json!({ "model": "gpt-5" })), "Use 'max_completion_tokens' instead."),
        (request(&json!({ "max_completion_tokens": 1 })), "at the same time is not supported"),
        (request(&json!({ "max_tokens": 0 })), "integer below minimum value"),
        (request(&json!({ "stream_options": {} })), "only allowed when 'stream' is enabled"),
        (request(&json!({ "stop": ["1", "2", "3", "4", "5"] })), "maximum length 4"),
        (request(&json!({ "tools": [] })), "Invalid 'tools': empty array"),
        (request(&json!({ "tools": [odd] })), "'tools[0].function.name': string does not match"),
        (request(&json!({ "tools": [tool(&"a".repeat(65))] })), "maximum length 64"),
        (request(&json!({ "tools": [list] })), "Invalid schema for function 'a'"),
        (request(&json!({ "tools": [{ "name": "a" }] })), "'tools[0].type'"),
        (request(&json!({ "tool_choice": "any" })), "Invalid value: 'any'"),
        (
            request(&json!({ "tool_choice": { "type": "function", "function": { "name": "b" } } })),
            "no function named \"b\"",
        ),
        (without, "only allowed when 'tools' are specified"),
    ]);
}

fn message() -> Message {
    let call = |id: &str, input: &str| Part::Call {
        kind: "tool_use",
        id: id.to_owned(),
        name: "a".to_owned(),
        input: input.to_owned(),
    };
    let usage = json!({ "input_tokens": 10, "cache_read_input_tokens": 30, "output_tokens": 5 });
    Message {
        id: "msg_01abc".to_owned(),
        model: "gpt-4.1".to_owned(),
        content: vec![
            Part::Thinking { thinking: "Hm.".to_owned(), signature: String::new() },
            Part::Text { text: "I will call both of them.".to_owned(), citations: Vec::new() },
            call("toolu_01x", r#"{"path":"notes.txt"}"#),
            call("toolu_01y", "{}"),
        ],
        stop_reason: "tool_use".to_owned(),
        stop_sequence: None,
        stop_details: None,
        usage: usage.as_object().unwrap().clone(),
        context_management: None,
        container: None,
    }
}

#[test]
fn a_streamed_reply_equals_the_reply_without_streaming() {
    let wire = stream(&message(), 4, true);
    let text = String::from_utf8(wire.bytes).unwrap();
    assert!(text.ends_with("data: [DONE]\n\n"));
    let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: {"));
    let chunks: Vec<Value> =
        data.map(|data| serde_json::from_str(&format!("{{{data}")).unwrap()).collect();
    let (mut said, mut calls) = (String::new(), vec![json!({}), json!({})]);
    for delta in chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]) {
        said.push_str(delta["content"].as_str().unwrap_or_default());
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            let call = &mut calls[usize::try_from(piece["index"].as_u64().unwrap()).unwrap()];
            if !piece["id"].is_null() {
                *call = piece.clone();
                call.as_object_mut().unwrap().shift_remove("index");
                continue;
            }
            let more = piece["function"]["arguments"].as_str().unwrap();
            let so_far = call["function"]["arguments"].as_str().unwrap();
            call["function"]["arguments"] = format!("{so_far}{more}").into();
        }
    }
    let whole = to_json(&message());
    let message = &whole["choices"][0];
    assert_eq!(
        message["message"],
        json!({ "role": "assistant", "content": said, "refusal": null, "tool_calls": calls })
    );
    let [.., last, counts] = chunks.as_slice() else { panic!("{chunks:?}") };
    assert_eq!(last["choices"][0]["finish_reason"], message["finish_reason"]);
    assert_eq!((&counts["choices"], &counts["usage"]), (&json!([]), &whole["usage"]));
    let usage = json!({ "prompt_tokens": 40, "completion_tokens": 5, "total_tokens": 45,
        "prompt_tokens_details": { "cached_tokens": 30 },
        "completion_tokens_details": { "reasoning_tokens": 0 } });
    assert_eq!(whole["usage"], usage);
}

#[test]
fn a_request_converts_to_the_messages_form() {
    let system = json!({ "role": "system", "content": "Be brief." });
    let body = history(&json!([system, user("a"), calling(&["1", "2"]), answer("1"), answer("2")]));
    let asked: Map<String, Value> = read::in_messages_form(body.as_object().unwrap());
    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "a", "input": {} });
    let result = |id: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": "ok" });
    let expected = json!([
        user("a"),
        { "role": "assistant", "content": [call("1"), call("2")] },
        { "role": "user", "content": [result("1"), result("2")] },
    ]);
    assert_eq!(asked["messages"], expected);
}

#[test]
fn errors_have_the_form_of_the_protocol() {
    let error = |kind: &str, details: Option<&Value>| {
        let body = error_body(kind, "m", details);
        (body["error"]["type"].clone(), body["error"]["code"].clone())
    };
    let code = json!({ "error_code": "odd" });
    assert_eq!(error("overloaded_error", None), (json!("server_error"), Value::Null));
    assert_eq!(error("rate_limit_error", None), (json!("requests"), json!("rate_limit_exceeded")));
    assert_eq!(error("server_error", Some(&code)), (json!("server_error"), json!("odd")));
}
