//! The content of replies, with and without streaming.

use serde_json::{Value, json};

use super::client::{
    accumulate, events, post_message, request, script, start, start_with, streamed, without_ids,
};
use crate::{Options, Script};

fn rich() -> Value {
    script(&json!([{ "content": [
        { "type": "thinking", "thinking": "Let me look at it, ünïcode and all." },
        { "type": "redacted_thinking", "data": "b3BhcXVl" },
        { "type": "text", "text": "I will read two files for you.",
          "citations": [{ "type": "char_location", "cited_text": "x" }] },
        { "type": "tool_use", "name": "read_file", "input": { "path": "src/main.rs", "offset": 3 } },
        { "type": "tool_use", "name": "read_file", "input": {} },
    ]}]))
}

fn hello() -> Value {
    request(&json!([{ "role": "user", "content": "hello" }]))
}

#[tokio::test]
async fn a_streamed_reply_equals_the_reply_without_streaming() {
    let simulator = start(&rich()).await;
    let whole = post_message(&simulator, &hello()).await.json();
    let mut stream = accumulate(&post_message(&simulator, &streamed(hello())).await.body);
    // The streamed request is a few bytes longer.
    assert_eq!(stream["usage"]["input_tokens"].as_u64(), Some(whole_input(&hello()) + 4));
    stream["usage"]["input_tokens"] = whole["usage"]["input_tokens"].clone();
    assert_eq!(without_ids(&stream), without_ids(&whole));
    assert_eq!(whole["stop_reason"], "tool_use");
}

fn whole_input(body: &Value) -> u64 {
    (body.to_string().len() / 4 + 1) as u64
}

#[tokio::test]
async fn a_stream_follows_the_grammar_of_the_api() {
    let simulator = start(&rich()).await;
    let reply = post_message(&simulator, &streamed(hello())).await;
    assert!(reply.head.contains("content-type: text/event-stream; charset=utf-8"));
    let events = events(&reply.body);
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names[..3], ["message_start", "content_block_start", "ping"]);
    assert_eq!(names[names.len() - 2..], ["message_delta", "message_stop"]);
    assert_eq!(events[0].1["message"]["usage"]["output_tokens"], 1);
    let mut open = None;
    let mut next = 0;
    for (name, data) in &events {
        assert_eq!(data["type"], *name);
        let index = data["index"].as_u64();
        match name.as_str() {
            "content_block_start" => {
                assert_eq!((open, index), (None, Some(next)));
                (open, next) = (index, next + 1);
            }
            "content_block_delta" => assert_eq!(index, open),
            "content_block_stop" => {
                assert_eq!(index, open);
                open = None;
            }
            _ => assert_eq!(index, None),
        }
    }
    assert_eq!((open, next), (None, 5));
}

#[tokio::test]
async fn tool_input_begins_with_an_empty_piece_and_an_empty_input_has_no_other() {
    let simulator = start(&rich()).await;
    let body = post_message(&simulator, &streamed(hello())).await.body;
    let pieces = |at: u64| -> Vec<String> {
        let events = events(&body).into_iter().filter(|(_, data)| data["index"] == at);
        events
            .filter_map(|(_, data)| Some(data["delta"]["partial_json"].as_str()?.into()))
            .collect()
    };
    assert_eq!(pieces(3), ["", r#"{"path":"src"#, "/main.rs\",\"o", r#"ffset":3}"#]);
    assert_eq!(pieces(4), [""]);
    assert!(body.contains(r#""caller":{"type":"direct"}"#));
}

#[tokio::test]
async fn data_is_padded_before_its_last_brace_by_varying_lengths() {
    let simulator = start(&rich()).await;
    let body = post_message(&simulator, &streamed(hello())).await.body;
    let padding = |line: &str| line.len() - line.trim_end_matches('}').trim_end().len();
    let lengths: std::collections::HashSet<usize> =
        body.lines().filter(|line| line.starts_with("data:")).map(padding).collect();
    assert!(lengths.len() > 4, "{lengths:?}");
}

#[tokio::test]
async fn thinking_is_signed_directly_before_its_block_stops() {
    let simulator = start(&rich()).await;
    let events = events(&post_message(&simulator, &streamed(hello())).await.body);
    let stop = events.iter().position(|(name, _)| name == "content_block_stop").unwrap();
    let delta = &events[stop - 1].1["delta"];
    assert_eq!(delta["type"], "signature_delta");
    assert!(delta["signature"].as_str().unwrap().starts_with("sim1."));
}

#[tokio::test]
async fn two_simulators_agree_on_all_but_ids() {
    let (one, other) = (start(&rich()).await, start(&rich()).await);
    for body in [hello(), streamed(hello())] {
        let (one, other) = (post_message(&one, &body).await, post_message(&other, &body).await);
        if body["stream"] == true {
            let (one, other) = (accumulate(&one.body), accumulate(&other.body));
            assert_eq!(without_ids(&one), without_ids(&other));
        } else {
            assert_ne!(one.json()["id"], other.json()["id"]);
            assert_eq!(without_ids(&one.json()), without_ids(&other.json()));
        }
    }
}

fn tool_round(history: &Value, reply: &Value, result: &str) -> Value {
    let mut messages = history.as_array().unwrap().clone();
    let calls = reply["content"].as_array().unwrap().iter().filter(|b| b["type"] == "tool_use");
    let results: Vec<Value> = calls
        .map(|c| json!({ "type": "tool_result", "tool_use_id": c["id"], "content": result }))
        .collect();
    messages.push(json!({ "role": "assistant", "content": reply["content"] }));
    messages.push(json!({ "role": "user", "content": results }));
    Value::Array(messages)
}

#[tokio::test]
async fn the_latest_user_text_selects_the_conversation_and_rounds_the_reply() {
    let call = json!({ "type": "tool_use", "name": "read_file", "input": { "path": "{{user}}" } });
    let simulator = start(&json!({ "conversations": [
        { "when": "EXPLAIN", "replies": [
            { "content": [call] },
            { "content": [call], "repeat": 2 },
            { "content": [{ "type": "text", "text": "It says: {{result.0}}, {{nothing}}" }] }] },
        { "replies": [{ "content": [{ "type": "text", "text": "anything else" }] }] },
    ]}))
    .await;
    let mut messages = json!([{ "role": "user", "content": "please explain it" }]);
    for round in 0..3 {
        let reply = post_message(&simulator, &request(&messages)).await.json();
        assert_eq!(reply["content"][0]["input"]["path"], "please explain it", "{round}: {reply}");
        messages = tool_round(&messages, &reply, " found \n");
    }
    let answer = post_message(&simulator, &request(&messages)).await.json();
    let text = json!([{ "type": "text", "text": "It says: found, {{nothing}}" }]);
    assert_eq!((&answer["content"], &answer["stop_reason"]), (&text, &json!("end_turn")));
    let all = messages.as_array_mut().unwrap();
    all.push(json!({ "role": "assistant", "content": answer["content"] }));
    all.push(json!({ "role": "user", "content": [{ "type": "text", "text": "something new" }] }));
    let other = post_message(&simulator, &request(&messages)).await.json();
    assert_eq!(other["content"][0]["text"], "anything else");
    assert_eq!(simulator.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn a_paused_turn_continues_and_the_end_of_a_script_is_reported() {
    let search = json!({ "type": "server_tool_use", "name": "web_search", "input": { "q": 1 } });
    let paused = json!([{ "content": [search], "stop_reason": "pause_turn" }]);
    let simulator = start(&script(&paused)).await;
    let reply = post_message(&simulator, &hello()).await.json();
    assert_eq!(reply["stop_reason"], "pause_turn");
    assert!(reply["content"][0]["id"].as_str().unwrap().starts_with("srvtoolu_01"));
    let messages = json!([
        { "role": "user", "content": "hello" },
        { "role": "assistant", "content": reply["content"] },
    ]);
    let next = post_message(&simulator, &request(&messages)).await.json();
    assert_eq!(next["content"][0]["text"], "(script ended)");
}

#[tokio::test]
async fn a_forbidden_call_becomes_text() {
    let call = json!({ "type": "tool_use", "name": "read_file", "input": {} });
    let mut body = hello();
    body["tool_choice"] = json!({ "type": "none" });
    let simulator = start(&script(&json!([{ "content": [call] }]))).await;
    let reply = post_message(&simulator, &body).await.json();
    assert_eq!(
        reply["content"][0]["text"],
        "This request forbids tool calls, so I cannot answer it."
    );
    assert_eq!(reply["stop_reason"], "end_turn");
    let said = json!([{ "content": [call], "when_forbidden": "you said {{user}}" }]);
    simulator.set_script(Script::from_json(&script(&said).to_string()).unwrap());
    let reply = post_message(&simulator, &body).await.json();
    assert_eq!(reply["content"], json!([{ "type": "text", "text": "you said hello" }]));
}

#[tokio::test]
async fn one_call_is_sent_if_the_request_disables_parallel_calls() {
    let call = |name: &str| json!({ "type": "tool_use", "name": name, "input": {} });
    let text = json!({ "type": "text", "text": "Both." });
    let content = json!([call("read_file"), text, call("read_file")]);
    let simulator = start(&script(&json!([{ "content": content }]))).await;
    let mut body = hello();
    for (disabled, expected) in [(false, 3), (true, 2)] {
        body["tool_choice"] = json!({ "type": "auto", "disable_parallel_tool_use": disabled });
        let reply = post_message(&simulator, &body).await.json();
        assert_eq!(reply["content"].as_array().unwrap().len(), expected);
        assert_eq!(reply["stop_reason"], "tool_use");
    }
}

#[tokio::test]
async fn a_forbidden_call_after_results_quotes_them() {
    let call = json!({ "type": "tool_use", "name": "read_file", "input": {} });
    let simulator = start(&script(&json!([{ "content": [call], "repeat": 2 }]))).await;
    let messages = json!([{ "role": "user", "content": "hello" }]);
    let reply = post_message(&simulator, &request(&messages)).await.json();
    let mut body = request(&tool_round(&messages, &reply, "one\ntwo"));
    body["tool_choice"] = json!({ "type": "none" });
    let text = post_message(&simulator, &body).await.json()["content"][0]["text"].clone();
    assert_eq!(text, "This request forbids more tool calls. The results so far: \"one two\".");
}

#[tokio::test]
async fn usage_stop_reason_and_model_can_be_scripted() {
    let simulator = start(&script(&json!([{
        "content": [], "model": "other", "stop_reason": "refusal",
        "stop_details": { "type": "refusal", "category": null },
        "usage": { "cache_read_input_tokens": 7, "output_tokens_details": { "thinking_tokens": 3 } },
    }])))
    .await;
    for body in [hello(), streamed(hello())] {
        let reply = post_message(&simulator, &body).await;
        let reply = if body["stream"] == true { accumulate(&reply.body) } else { reply.json() };
        assert_eq!(reply["model"], "other");
        assert_eq!(reply["stop_reason"], "refusal");
        assert_eq!(reply["stop_details"]["type"], "refusal");
        assert_eq!(reply["usage"]["cache_read_input_tokens"], 7);
        assert_eq!(reply["usage"]["output_tokens_details"]["thinking_tokens"], 3);
    }
}

#[tokio::test]
async fn a_script_can_refuse_unknown_texts() {
    let simulator = start(&json!({ "otherwise": "refuse" })).await;
    assert_eq!(post_message(&simulator, &hello()).await.status, 400);
    let message = "script: no conversation matches the user text \"hello\"";
    assert_eq!(simulator.refusals(), [message]);
}

#[tokio::test]
async fn zero_max_tokens_only_fills_the_cache() {
    let simulator = start_with(Script::demo(), Options::default()).await;
    let mut body = hello();
    body["max_tokens"] = json!(0);
    let reply = post_message(&simulator, &body).await.json();
    assert_eq!((&reply["content"], &reply["stop_reason"]), (&json!([]), &json!("max_tokens")));
}
