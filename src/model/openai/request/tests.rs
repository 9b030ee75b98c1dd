//! Request bodies in the format of Chat Completions.

use serde_json::Value;

use super::*;

const PLAIN: Dialect = Dialect { max_tokens_field: MaxTokensField::MaxTokens, takes_images: true };

fn settings() -> Settings {
    let tools = r#"[{"name":"f","description":"Does f.","input_schema":{"type":  "object"},
        "cache_control":{"type":"ephemeral"}},{"type":"web_search_20250305","name":"web_search"}]"#;
    Settings {
        model: "local".into(),
        max_tokens: 100,
        system: "Be brief.".into(),
        tools: RawValue::from_string(tools.into()).unwrap(),
        thinking: Some(RawValue::from_string(r#"{"type":"adaptive"}"#.into()).unwrap()),
        ..Settings::default()
    }
}

fn bare() -> Settings {
    let tools = RawValue::from_string("[]".into()).unwrap();
    Settings { model: "local".into(), max_tokens: 100, tools, ..Settings::default() }
}

/// The messages that a history is translated into.
fn messages(history: &[Value], dialect: Dialect) -> Value {
    let head = Head::new(&bare(), None, dialect).unwrap();
    let history: Vec<String> = history.iter().map(Value::to_string).collect();
    let body = body(&head, &history.join(","), &ToolChoice::AUTO);
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    body["messages"].take()
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

#[test]
fn a_body_consists_of_head_messages_and_tool_choice() {
    let head = Head::new(&settings(), None, PLAIN).unwrap();
    let choice = ToolChoice::Tool { name: "f".into(), disable_parallel_tool_use: None };
    let history = r#"{"role":"user","content":[{"type":"text","text":"Hi"}]}"#;
    let expected = concat!(
        r#"{"model":"local","max_tokens":100,"stream":true,"#,
        r#""stream_options":{"include_usage":true},"#,
        r#""tools":[{"type":"function","function":{"name":"f","description":"Does f.","#,
        r#""parameters":{"type":  "object"}}}],"#,
        r#""messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}],"#,
        r#""tool_choice":{"type":"function","function":{"name":"f"}}}"#,
    );
    assert_eq!(body(&head, history, &choice), expected);
    for (choice, word) in [(ToolChoice::ANY, "required"), (ToolChoice::None, "none")] {
        let body: Value = serde_json::from_slice(&body(&head, history, &choice)).unwrap();
        assert_eq!(body["tool_choice"], word);
    }
}

#[test]
fn unset_options_are_not_sent() {
    let mut settings = bare();
    settings.stop_sequences = vec!["END".into()];
    let dialect = Dialect { max_tokens_field: MaxTokensField::MaxCompletionTokens, ..PLAIN };
    let head = Head::new(&settings, None, dialect).unwrap();
    let expected = concat!(
        r#"{"model":"local","max_completion_tokens":100,"stream":true,"#,
        r#""stream_options":{"include_usage":true},"stop":["END"],"messages":[]}"#,
    );
    assert_eq!(body(&head, "", &ToolChoice::None), expected);
}

#[test]
fn calls_and_results_become_messages_of_their_own() {
    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "f", "input": { "a": 1 } });
    let asked = |id: &str| {
        json!({ "id": id, "type": "function",
        "function": { "name": "f", "arguments": "{\"a\":1}" } })
    };
    let history = [
        user(&json!([text("Go")])),
        assistant(&json!([
            { "type": "thinking", "thinking": "Hm", "signature": "s" },
            text("I call."), call("1"), call("2"), call("3"),
        ])),
        user(&json!([
            { "type": "tool_result", "tool_use_id": "1", "content": "one" },
            { "type": "tool_result", "tool_use_id": "2", "content": [text("no"), text("way")],
              "is_error": true },
            { "type": "tool_result", "tool_use_id": "3" },
            text("And now?"),
        ])),
        assistant(&json!([call("4")])),
        user(&json!([{ "type": "tool_result", "tool_use_id": "4", "content": "Error: no",
                       "is_error": true }])),
    ];
    let expected = json!([
        { "role": "user", "content": "Go" },
        { "role": "assistant", "content": "I call.",
          "tool_calls": [asked("1"), asked("2"), asked("3")] },
        { "role": "tool", "tool_call_id": "1", "content": "one" },
        { "role": "tool", "tool_call_id": "2", "content": "Error: no\nway" },
        { "role": "tool", "tool_call_id": "3", "content": "" },
        { "role": "user", "content": "And now?" },
        { "role": "assistant", "content": null, "tool_calls": [asked("4")] },
        { "role": "tool", "tool_call_id": "4", "content": "Error: no" },
    ]);
    assert_eq!(messages(&history, PLAIN), expected);
}

#[test]
fn an_input_is_sent_back_with_its_exact_text() {
    let head = Head::new(&bare(), None, PLAIN).unwrap();
    let history = r#"{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"a.b",
        "input":{"n":  1e3, "n":2}}]}"#;
    let body: Value = serde_json::from_slice(&body(&head, history, &ToolChoice::AUTO)).unwrap();
    let function = &body["messages"][0]["tool_calls"][0]["function"];
    assert_eq!(function, &json!({ "name": "a_b", "arguments": r#"{"n":  1e3, "n":2}"# }));
}

#[test]
fn consecutive_messages_of_one_role_are_merged() {
    let history = [
        user(&json!([text("One"), text("Two")])),
        user(&json!([text("Three")])),
        assistant(&json!([{ "type": "new_thing" }])),
        user(&json!([text("Four")])),
        assistant(&json!([text("A")])),
        assistant(&json!([text("B")])),
        user(&json!([{ "type": "container_upload", "file_id": "f" }])),
    ];
    let expected = json!([
        { "role": "user", "content": "One\n\nTwo\n\nThree\n\nFour" },
        { "role": "assistant", "content": "AB" },
    ]);
    assert_eq!(messages(&history, PLAIN), expected);
}

#[test]
fn images_are_sent_or_replaced_by_a_text() {
    let inline = json!({ "type": "image",
        "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" } });
    let linked =
        json!({ "type": "image", "source": { "type": "url", "url": "https://example.com/a.png" } });
    let result = json!({ "type": "tool_result", "tool_use_id": "1",
        "content": [text("A chart"), inline.clone()] });
    let history = [user(&json!([result])), user(&json!([text("Look"), linked]))];
    let url = |url: &str| json!({ "type": "image_url", "image_url": { "url": url } });
    let expected = json!([
        { "role": "tool", "tool_call_id": "1",
          "content": "A chart\n[images: in the next message of the user]" },
        { "role": "user", "content": [
            text("Images of the result of 1:"), url("data:image/png;base64,AAAA"),
            text("Look"), url("https://example.com/a.png") ] },
    ]);
    assert_eq!(messages(&history, PLAIN), expected);

    let blind = Dialect { takes_images: false, ..PLAIN };
    let expected = json!([
        { "role": "tool", "tool_call_id": "1",
          "content": "A chart\n[an image that cannot be shown here]" },
        { "role": "user", "content": "Look\n\n[an image that cannot be shown here]" },
    ]);
    assert_eq!(messages(&history, blind), expected);
}

#[test]
fn documents_and_search_results_become_texts() {
    let document = |source: Value| json!({ "type": "document", "title": "Plan", "context": "Old", "source": source });
    let history = [user(&json!([
        document(json!({ "type": "text", "media_type": "text/plain", "data": "Dig." })),
        document(json!({ "type": "content", "content": [text("Sow.")] })),
        { "type": "document", "source": { "type": "base64", "media_type": "application/pdf",
          "data": "AAAA" } },
        { "type": "search_result", "source": "https://example.com", "title": "Seeds",
          "content": [text("Buy"), text("some")] },
    ]))];
    let expected = [
        "Document: Plan\nContext: Old\n\nDig.",
        "Document: Plan\nContext: Old\n\nSow.",
        "[a document that cannot be shown here]",
        "Search result: Seeds\nSource: https://example.com\n\nBuy\nsome",
    ];
    assert_eq!(
        messages(&history, PLAIN),
        json!([{ "role": "user", "content": expected.join("\n\n") }])
    );
}

#[test]
fn a_summary_becomes_a_user_message() {
    let summary = json!({ "type": "compaction", "content": "They met.", "signature": "s" });
    let failed = json!({ "type": "compaction", "content": null });
    let history = [
        assistant(&json!([summary, text("Yes.")])),
        assistant(&json!([failed])),
        user(&json!([text("Hi")])),
    ];
    let expected = json!([
        { "role": "user", "content": "Summary of the conversation so far:\n\nThey met." },
        { "role": "assistant", "content": "Yes." },
        { "role": "user", "content": "Hi" },
    ]);
    assert_eq!(messages(&history, PLAIN), expected);
}

#[test]
fn tools_of_the_run_follow_those_of_the_session() {
    let more = RawValue::from_string(r#"[{"name":"g","input_schema":{}}]"#.into()).unwrap();
    let head = Head::new(&settings(), Some(&more), PLAIN).unwrap();
    let body: Value = serde_json::from_slice(&body(&head, "", &ToolChoice::AUTO)).unwrap();
    let names: Vec<&Value> =
        body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
    assert_eq!(names, ["f", "g"]);
}

#[test]
fn a_request_is_a_byte_prefix_of_the_next() {
    let head = Head::new(&settings(), None, PLAIN).unwrap();
    let asked = r#"{"role":"user","content":[{"type":"text","text":"Hi"}]}"#;
    let answer = r#"{"role":"assistant","content":[{"type":"text","text":"Ho"}]}"#;
    let first = body(&head, asked, &ToolChoice::AUTO);
    let second = body(&head, &format!("{asked},{answer}"), &ToolChoice::None);
    assert!(second.starts_with(first.strip_suffix(b"]}").unwrap()));
}

#[test]
fn model_options_are_translated() {
    let mut settings = bare();
    settings.system = serde_json::from_str(
        r#"[{"type":"text","text":"Be brief."},{"type":"text","text":"Be kind."}]"#,
    )
    .unwrap();
    settings.model_options = serde_json::from_str(
        r#"{"effort":"medium","service_tier":"auto","user_id":"u-1","betas":["b-1"],
            "output_schema":{"type" : "object"}}"#,
    )
    .unwrap();
    let head = Head::new(&settings, None, PLAIN).unwrap();
    let expected = concat!(
        r#"{"model":"local","max_tokens":100,"stream":true,"#,
        r#""stream_options":{"include_usage":true},"reasoning_effort":"medium","#,
        r#""response_format":{"type":"json_schema","json_schema":{"name":"output","#,
        r#""strict":true,"schema":{"type" : "object"}}},"#,
        r#""messages":[{"role":"system","content":"Be brief.\n\nBe kind."}]}"#,
    );
    assert_eq!(body(&head, "", &ToolChoice::AUTO), expected);
}

#[test]
fn an_effort_above_the_highest_supported_level_is_lowered_to_it() {
    for (effort, word) in [("low", "low"), ("high", "high"), ("xhigh", "high"), ("max", "high")] {
        let mut settings = bare();
        settings.model_options = serde_json::from_value(json!({ "effort": effort })).unwrap();
        let body = body(&Head::new(&settings, None, PLAIN).unwrap(), "", &ToolChoice::AUTO);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["reasoning_effort"], word, "{effort}");
    }
}
