//! The effect of each edit on a request, and its report.

use serde_json::{Value, json};

use super::*;

/// A request with `count` rounds. Each has thinking, a call of `read` or `write` in turn, and a
/// result of 400 bytes.
fn rounds(count: usize, edits: &Value) -> Map<String, Value> {
    let mut messages = vec![json!({ "role": "user", "content": "go" })];
    for round in 0..count {
        let name = if round % 2 == 0 { "read" } else { "write" };
        let id = format!("toolu_{round}");
        messages.push(json!({ "role": "assistant", "content": [
            { "type": "thinking", "thinking": "hm", "signature": "s".repeat(40) },
            { "type": "tool_use", "id": id, "name": name, "input": { "path": "a" } },
        ] }));
        messages.push(json!({ "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": id, "content": "x".repeat(400) } ] }));
    }
    fields(&json!({ "messages": messages, "context_management": { "edits": edits } }))
}

fn fields(request: &Value) -> Map<String, Value> {
    request.as_object().unwrap().clone()
}

fn view(request: &Map<String, Value>) -> View<'_> {
    View::of(ApiRequest(request), Value::Object(request.clone()).to_string().len())
}

fn applied(request: &Map<String, Value>) -> Value {
    view(request).report().unwrap()["applied_edits"].clone()
}

/// The numbers of the rounds whose results remain.
fn left(request: &Map<String, Value>) -> Vec<usize> {
    let view = view(request);
    let results = view.request().messages().iter().skip(2).step_by(2);
    let texts = results.map(|message| message["content"][0]["content"].to_string());
    texts.enumerate().filter(|(_, text)| text.len() > 400).map(|(round, _)| round).collect()
}

fn tool_uses(fields: &Value) -> Value {
    let mut edit = json!({ "type": "clear_tool_uses_20250919",
                           "trigger": { "type": "input_tokens", "value": 1 } });
    for (field, value) in fields.as_object().unwrap() {
        edit[field] = value.clone();
    }
    json!([edit])
}

#[test]
fn a_request_without_edits_is_unchanged() {
    let plain = fields(&json!({ "messages": [{ "role": "user", "content": "go" }] }));
    let size = Value::Object(plain.clone()).to_string().len();
    assert_eq!(view(&plain).report(), None);
    assert_eq!(view(&plain).count(), json!({ "input_tokens": size / 4 + 1 }));
}

#[test]
fn old_results_are_cleared_and_the_latest_kept() {
    let request = rounds(5, &tool_uses(&json!({})));
    assert_eq!(left(&request), [2, 3, 4]);
    let saved = 2 * (400 - "[Old tool result content cleared]".len()) / 4;
    let expected = json!([{ "type": "clear_tool_uses_20250919", "cleared_tool_uses": 2,
                            "cleared_input_tokens": saved }]);
    assert_eq!(applied(&request), expected);
    let before = Value::Object(request.clone()).to_string().len() / 4 + 1;
    let count = json!({ "input_tokens": before - saved,
                        "context_management": { "original_input_tokens": before } });
    assert_eq!(view(&request).count(), count);
}

#[test]
fn an_edit_sets_what_is_kept_and_excluded() {
    let kept = |fields: Value| left(&rounds(5, &tool_uses(&fields)));
    assert_eq!(kept(json!({ "keep": { "type": "tool_uses", "value": 1 } })), [4]);
    assert_eq!(kept(json!({ "keep": { "type": "tool_uses", "value": 0 } })), Vec::<usize>::new());
    assert_eq!(kept(json!({ "exclude_tools": ["read"] })), [0, 2, 3, 4]);
    assert_eq!(kept(json!({ "exclude_tools": ["read", "write"] })), [0, 1, 2, 3, 4]);
}

#[test]
fn an_edit_waits_for_its_trigger_and_its_minimum() {
    let all = [0, 1, 2, 3, 4];
    for (fields, expected) in [
        (json!({ "trigger": null }), &all[..]),
        (json!({ "trigger": { "type": "input_tokens", "value": 5000 } }), &all),
        (json!({ "trigger": { "type": "tool_uses", "value": 6 } }), &all),
        (json!({ "trigger": { "type": "tool_uses", "value": 5 } }), &all[2..]),
        (json!({ "clear_at_least": { "type": "input_tokens", "value": 184 } }), &all),
        (json!({ "clear_at_least": { "type": "input_tokens", "value": 180 } }), &all[2..]),
    ] {
        let request = rounds(5, &tool_uses(&fields));
        assert_eq!(left(&request), expected, "{fields}");
        assert_eq!(applied(&request).as_array().unwrap().is_empty(), expected.len() == 5);
    }
}

#[test]
fn an_edit_can_clear_tool_inputs() {
    let whole = json!({ "path": "a" });
    for (inputs, expected) in [
        (json!(null), [whole.clone(), whole.clone()]),
        (json!(false), [whole.clone(), whole.clone()]),
        (json!(true), [json!({}), json!({})]),
        (json!(["write"]), [whole, json!({})]),
    ] {
        let request = rounds(5, &tool_uses(&json!({ "clear_tool_inputs": inputs })));
        let view = view(&request);
        let input = |at: usize| view.request().messages()[at]["content"][1]["input"].clone();
        assert_eq!([1, 3].map(input), expected, "{inputs}");
    }
}

/// A request with three turns with thinking. The second turn has two rounds.
fn turns(keep: Value) -> Map<String, Value> {
    let mut edit = json!({ "type": "clear_thinking_20251015" });
    if !keep.is_null() {
        edit["keep"] = keep;
    }
    let thought = json!({ "type": "thinking", "thinking": "hm", "signature": "s".repeat(400) });
    let call = json!({ "type": "tool_use", "id": "t", "name": "read", "input": {} });
    let said = |text: &str| json!({ "type": "text", "text": text });
    let result = json!({ "type": "tool_result", "tool_use_id": "t" });
    fields(&json!({ "model": "simulator", "context_management": { "edits": [edit] }, "messages": [
        { "role": "user", "content": "one" },
        { "role": "assistant", "content": [thought, said("1")] },
        { "role": "user", "content": "two" },
        { "role": "assistant", "content": [thought, call] },
        { "role": "user", "content": [result] },
        { "role": "assistant", "content": [thought, said("2")] },
        { "role": "user", "content": "three" },
        { "role": "assistant", "content": [thought, said("3")] },
        { "role": "user", "content": "four" },
    ] }))
}

#[test]
fn the_thinking_of_old_turns_is_cleared() {
    let turns_of = |count: usize| json!({ "type": "thinking_turns", "value": count });
    for (keep, cleared, left) in [
        (json!(null), 2, [false, false, false, true]),
        (turns_of(2), 1, [false, true, true, true]),
        (turns_of(3), 0, [true; 4]),
        (json!("all"), 0, [true; 4]),
    ] {
        let request = turns(keep.clone());
        let view = view(&request);
        let thinks = |at: usize| view.request().messages()[at]["content"][0]["type"] == "thinking";
        assert_eq!([1, 3, 5, 7].map(thinks), left, "{keep}");
        let applied = applied(&request);
        assert_eq!(applied.as_array().unwrap().len(), usize::from(cleared > 0));
        if cleared > 0 {
            assert_eq!(applied[0]["cleared_thinking_turns"], cleared);
            assert!(applied[0]["cleared_input_tokens"].as_u64().unwrap() > 100);
        }
    }
}

#[test]
fn models_that_keep_all_thinking_clear_it_only_on_request() {
    for (model, keeps) in [
        ("claude-opus-4-5", true),
        ("claude-sonnet-4-6", true),
        ("claude-fable-5", true),
        ("claude-mythos-preview", true),
        ("claude-opus-4-1", false),
        ("claude-sonnet-4-5", false),
        ("claude-haiku-5-5", false),
    ] {
        let mut request = turns(json!(null));
        request.insert("model".to_owned(), json!(model));
        assert_eq!(applied(&request).as_array().unwrap().is_empty(), keeps, "{model}");
        let mut request = turns(json!({ "type": "thinking_turns", "value": 1 }));
        request.insert("model".to_owned(), json!(model));
        assert_eq!(applied(&request)[0]["cleared_thinking_turns"], 2, "{model}");
    }
}

#[test]
fn the_bytes_of_images_do_not_count() {
    let data = "x".repeat(400_000);
    let with = |source: Value| {
        let image = json!({ "type": "image", "source": source });
        fields(&json!({
            "messages": [{ "role": "user", "content": [
                image, { "type": "tool_result", "tool_use_id": "t", "content": [image] } ] }],
            "context_management": { "edits": [{ "type": "compact_20260112" }] },
        }))
    };
    for source in [
        json!({ "type": "base64", "media_type": "image/png", "data": data }),
        json!({ "type": "url", "url": format!("data:image/png;base64,{data}") }),
    ] {
        let request = with(source);
        let view = view(&request);
        assert!(view.tokens() < 150 && !view.is_due(), "{}", view.tokens());
        assert_eq!(view.count()["input_tokens"], view.tokens());
    }
    let text = with(json!({ "type": "text", "media_type": "text/plain", "data": data }));
    assert!(view(&text).is_due());
}

#[test]
fn messages_before_a_summary_are_not_visible() {
    let summary = json!({ "type": "compaction", "content": "short" });
    let request = fields(&json!({ "messages": [
        { "role": "user", "content": "x".repeat(4000) },
        { "role": "assistant", "content": [{ "type": "text", "text": "a" }, summary] },
        { "role": "user", "content": "b" },
    ] }));
    let view = view(&request);
    let rest = json!([{ "role": "assistant", "content": [summary] },
                      { "role": "user", "content": "b" }]);
    assert_eq!(json!(view.request().messages()), rest);
    assert!(view.count()["input_tokens"].as_u64().unwrap() < 50);
}

#[test]
fn a_long_conversation_is_summarized_and_a_summary_is_not() {
    let asked = |text: &str, trigger: Value| {
        fields(&json!({
            "system": "x".repeat(600_000),
            "messages": [{ "role": "assistant", "content": [
                { "type": "compaction", "content": "before" }, { "type": "text", "text": text } ] }],
            "context_management": { "edits": [
                { "type": "compact_20260112", "trigger": trigger } ] },
        }))
    };
    let at = |tokens: u64| json!({ "type": "input_tokens", "value": tokens });
    assert!(view(&asked("more", json!(null))).is_due());
    assert!(!view(&asked("more", at(200_000))).is_due());
    assert!(view(&asked("more", at(100_000))).is_due());
    let mut alone = asked("more", at(100_000));
    alone["messages"][0]["content"].as_array_mut().unwrap().pop();
    assert!(!view(&alone).is_due());
}
