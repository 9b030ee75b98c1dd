//! Request bodies in the format of Responses.

use serde_json::Value;

use super::*;
use crate::domain::model::Effort;

const REASONING: &str =
    r#"{"id":"rs_1",  "type":"reasoning","summary":[],"encrypted_content":"gAAA\u00e9","x":1.0}"#;

fn settings(tools: &str) -> Settings {
    let tools = RawValue::from_string(tools.into()).unwrap();
    Settings { model: "gpt".into(), max_tokens: 100, tools, ..Settings::default() }
}

fn body_of(settings: &Settings, history: &[Value], choice: &ToolChoice) -> String {
    let head = Head::new(settings, None).unwrap();
    let history: Vec<String> = history.iter().map(Value::to_string).collect();
    String::from_utf8(body(&head, &history.join(","), choice).to_vec()).unwrap()
}

fn input(history: &[Value]) -> Value {
    let body = body_of(&settings("[]"), history, &ToolChoice::AUTO);
    serde_json::from_str::<Value>(&body).unwrap()["input"].take()
}

fn user(blocks: &Value) -> Value {
    json!({ "role": "user", "content": blocks })
}

fn assistant(blocks: &Value) -> Value {
    json!({ "role": "assistant", "content": blocks })
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn thinking(item: &str) -> Value {
    json!({ "type": "thinking", "thinking": "", "signature": format!("responses:{item}") })
}

fn call(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "f", "input": { "a": 1 } })
}

#[test]
fn a_body_consists_of_head_input_and_tool_choice() {
    let tools = r#"[{"name":"f","description":"Does f.","input_schema":{"type":  "object"}}]"#;
    let mut settings = Settings { system: "Be brief.".into(), ..settings(tools) };
    settings.model_options.effort = Some(Effort::Max);
    let schema = RawValue::from_string(r#"{"type":  "object"}"#.into()).unwrap();
    settings.model_options.output_schema = Some(schema);
    let choice = ToolChoice::Tool { name: "f".into(), disable_parallel_tool_use: Some(true) };
    let expected = concat!(
        r#"{"model":"gpt","max_output_tokens":100,"stream":true,"store":false,"#,
        r#""include":["reasoning.encrypted_content"],"instructions":"Be brief.","#,
        r#""reasoning":{"effort":"high"},"#,
        r#""text":{"format":{"type":"json_schema","name":"output","strict":true,"#,
        r#""schema":{"type":  "object"}}},"#,
        r#""tools":[{"type":"function","name":"f","description":"Does f.","#,
        r#""parameters":{"type":  "object"},"strict":false}],"#,
        r#""input":[{"type":"message","role":"user","#,
        r#""content":[{"type":"input_text","text":"Hi"}]}],"#,
        r#""tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false}"#,
    );
    assert_eq!(body_of(&settings, &[user(&json!([text("Hi")]))], &choice), expected);
}

#[test]
fn reasoning_is_sent_back_byte_for_byte_before_the_item_that_follows_it() {
    let history = [
        user(&json!([text("Hi")])),
        assistant(&json!([thinking(REASONING), text("Well."), thinking("{\"n\":2}"), call("c1")])),
        user(&json!([{ "type": "tool_result", "tool_use_id": "c1", "content": "ok" }])),
    ];
    let body = body_of(&settings("[]"), &history, &ToolChoice::AUTO);
    let expected = format!(
        r#"{REASONING},{{"type":"message","role":"assistant","content":"Well."}},{{"n":2}},{{"type":"function_call","call_id":"c1","name":"f","arguments":"{{\"a\":1}}"}},{{"type":"function_call_output","call_id":"c1","output":"ok"}}]"#
    );
    assert!(body.contains(&expected), "{body}");
}

#[test]
fn reasoning_without_a_following_item_and_that_of_other_servers_is_omitted() {
    let foreign = json!({ "type": "thinking", "thinking": "Hm.", "signature": "EqQ" });
    let history = [
        user(&json!([text("Hi")])),
        assistant(&json!([foreign, text("Well."), thinking(REASONING)])),
        user(&json!([text("Go on.")])),
    ];
    let kinds: Vec<Value> =
        input(&history).as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(kinds, ["message", "message", "message"]);
}

#[test]
fn results_may_have_images_and_say_that_they_failed() {
    let image = json!({ "type": "image", "source": { "type": "url", "url": "https://a.b/1" } });
    let history = [
        assistant(&json!([call("c1"), call("c2")])),
        user(&json!([
            { "type": "tool_result", "tool_use_id": "c1", "content": [text("Seen:"), image] },
            { "type": "tool_result", "tool_use_id": "c2", "content": "No.", "is_error": true },
            { "type": "document", "source": { "type": "text", "media_type": "text/plain",
              "data": "Long." }, "title": "T" },
        ])),
    ];
    let items = input(&history);
    let shown = json!([
        { "type": "input_text", "text": "Seen:" },
        { "type": "input_image", "image_url": "https://a.b/1", "detail": "auto" },
    ]);
    assert_eq!(
        items[2],
        json!({ "type": "function_call_output", "call_id": "c1", "output": shown })
    );
    assert_eq!(items[3]["output"], "Error:\nNo.");
    let document = json!([{ "type": "input_text", "text": "Document: T\n\nLong." }]);
    assert_eq!(items[4]["content"], document);
}

#[test]
fn no_reasoning_is_requested_if_thinking_is_disabled() {
    let thinking = RawValue::from_string(r#"{"type":"disabled"}"#.into()).unwrap();
    let settings = Settings { thinking: Some(thinking), ..settings("[]") };
    let body = body_of(&settings, &[], &ToolChoice::AUTO);
    assert!(!body.contains("include"), "{body}");
}
