//! Summaries on request.

use serde_json::{Value, json};

use super::client::{
    accumulate, events, post_message, post_message_with, request, script, start, start_with,
    streamed, without_ids,
};
use crate::{Options, Running, Script};

const BETA: &str = "compact-2026-09-04";

fn hello() -> Value {
    json!([{ "role": "user", "content": "hello" }])
}

fn summarize(messages: &Value) -> Value {
    let mut body = request(messages);
    body["compaction"] = json!({ "type": "summarize" });
    body
}

fn says(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// The messages after a summary, with another user message.
fn then(reply: &Value, text: &str) -> Value {
    json!([{ "role": "assistant", "content": reply["content"] }, { "role": "user", "content": text }])
}

async fn summary_of(simulator: &Running, messages: &Value) -> Value {
    post_message_with(simulator, BETA, &summarize(messages)).await.json()
}

#[tokio::test]
async fn a_summary_is_the_whole_reply_and_counts_in_its_iteration() {
    let simulator = start(&json!({})).await;
    let messages = json!([
        { "role": "user", "content": "hello" },
        { "role": "assistant", "content": "How may I help?" },
        { "role": "user", "content": "Thank you." },
    ]);
    let body = summarize(&messages);
    let reply = post_message_with(&simulator, BETA, &body).await.json();
    let text = "A summary of 3 messages. It starts with \"hello\". It ends with \"Thank you.\" and \
                \"How may I help?\".";
    assert_eq!(reply["content"][0]["content"], text);
    let mut rest = without_ids(&reply);
    rest["content"][0]["signature"] = json!("signed");
    let nothing = json!({ "ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0 });
    let iteration = json!({ "type": "compaction", "input_tokens": body.to_string().len() / 4 + 1,
        "output_tokens": text.len().div_ceil(4), "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0 });
    let expected = json!({
        "id": "msg", "type": "message", "role": "assistant", "model": "simulator",
        "content": [{ "type": "compaction", "content": text, "signature": "signed" }],
        "stop_reason": "compaction", "stop_sequence": null, "stop_details": null, "container": null,
        "usage": {
            "input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
            "cache_creation": nothing, "output_tokens": 0, "service_tier": "standard",
            "inference_geo": "global", "iterations": [iteration],
        },
    });
    assert_eq!(rest, expected);
}

#[tokio::test]
async fn a_streamed_summary_is_complete_in_its_start_event() {
    let simulator = start(&json!({})).await;
    let body = post_message_with(&simulator, BETA, &streamed(summarize(&hello()))).await.body;
    let names: Vec<String> = events(&body).into_iter().map(|(name, _)| name).collect();
    let expected = [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names, expected);
    let opening = &events(&body)[0].1["message"]["usage"];
    assert_eq!((&opening["input_tokens"], &opening["output_tokens"]), (&json!(0), &json!(0)));
    let mut sum = accumulate(&body);
    let mut whole = summary_of(&simulator, &hello()).await;
    for message in [&mut sum, &mut whole] {
        message["usage"]["iterations"][0]["input_tokens"] = json!("differs");
    }
    assert_eq!(without_ids(&sum), without_ids(&whole));
}

#[tokio::test]
async fn a_summary_leads_later_requests_and_does_not_affect_the_script() {
    let call = json!({ "type": "tool_use", "name": "read_file", "input": {} });
    let simulator = start(&json!({ "conversations": [
        { "when": "hello", "replies": [{ "content": [call] }, says("first"), says("second")] },
        { "when": "more", "replies": [says("{{user}} of it")] },
    ] }))
    .await;
    let called = post_message(&simulator, &request(&hello())).await.json();
    let result = json!({ "type": "tool_result", "tool_use_id": called["content"][0]["id"] });
    let messages = json!([
        { "role": "user", "content": "hello" },
        { "role": "assistant", "content": called["content"] },
        { "role": "user", "content": [result] },
    ]);
    let summary = summary_of(&simulator, &messages).await;
    let answer = post_message(&simulator, &request(&messages)).await.json();
    assert_eq!(answer["content"][0]["text"], "first");
    let later = request(&then(&summary, "more"));
    let refused = post_message(&simulator, &later).await;
    assert_eq!(refused.status, 400);
    let reply = post_message_with(&simulator, BETA, &later).await.json();
    assert_eq!(reply["content"][0]["text"], "more of it");
    assert_eq!(simulator.refusals().len(), 1);
}

#[tokio::test]
async fn summaries_are_scripted_by_their_number() {
    let scripted = |text: &str| json!({ "content": [{ "type": "compaction", "content": text }] });
    let simulator = start(&json!({ "compaction": [
        scripted("It was about {{user}}."),
        { "stop_reason": "max_tokens", "usage": { "output_tokens": 8000 } },
    ] }))
    .await;
    let first = summary_of(&simulator, &hello()).await;
    assert_eq!(first["content"][0]["content"], "It was about hello.");
    let again = summary_of(&simulator, &hello()).await;
    assert_eq!(without_ids(&first), without_ids(&again));
    let second = summary_of(&simulator, &then(&first, "more")).await;
    assert_eq!((&second["content"], &second["stop_reason"]), (&json!([]), &json!("max_tokens")));
    assert_eq!(second["usage"]["output_tokens"], 0);
    assert_eq!(second["usage"]["iterations"][0]["output_tokens"], 8000);
    assert_eq!(simulator.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn a_summary_can_fail_and_then_succeed() {
    let error = json!({ "type": "overloaded_error", "message": "busy",
                        "details": { "error_code": "compaction_unavailable" } });
    let block = json!({ "type": "compaction" });
    let reply = json!({ "content": [block], "fail_first": [{ "status": 529, "error": error }] });
    let simulator = start(&json!({ "compaction": [reply] })).await;
    let failed = post_message_with(&simulator, BETA, &summarize(&hello())).await;
    assert_eq!((failed.status, &failed.json()["error"]), (529, &error));
    assert_eq!(summary_of(&simulator, &hello()).await["stop_reason"], "compaction");
}

#[tokio::test]
async fn a_refusal_has_an_error_code() {
    let simulator = start(&json!({})).await;
    let reply = post_message_with(&simulator, BETA, &summarize(&json!([]))).await;
    let details = json!({ "error_code": "compaction_nothing_to_summarize" });
    assert_eq!((reply.status, &reply.json()["error"]["details"]), (400, &details));
}

#[tokio::test]
async fn a_summary_reads_the_cache_entries_of_the_conversation() {
    let options = Options { simulates_cache: true, ..Options::default() };
    let simulator = start_with(Script::demo(), options).await;
    let messages = json!([{ "role": "user", "content": "x".repeat(8_000) }]);
    let mut plain = request(&messages);
    plain["cache_control"] = json!({ "type": "ephemeral" });
    let written =
        post_message(&simulator, &plain).await.json()["usage"]["cache_creation_input_tokens"]
            .clone();
    assert!(written.as_u64().unwrap() > 2_000);
    plain["compaction"] = json!({ "type": "summarize" });
    let usage = post_message_with(&simulator, BETA, &plain).await.json()["usage"].clone();
    assert_eq!(usage["cache_read_input_tokens"], 0);
    assert_eq!(usage["iterations"][0]["cache_read_input_tokens"], written);
}

#[tokio::test]
async fn thinking_of_a_kept_turn_is_valid_after_a_summary() {
    let thinks = json!({ "content": [
        { "type": "thinking", "thinking": "hm" }, { "type": "text", "text": "hi" } ] });
    let simulator = start(&script(&json!([thinks]))).await;
    let said = post_message(&simulator, &request(&hello())).await.json();
    let kept = json!({ "role": "assistant", "content": said["content"] });
    let summary = summary_of(&simulator, &hello()).await;
    let mut messages = then(&summary, "more");
    messages.as_array_mut().unwrap().insert(1, kept);
    let reply = post_message_with(&simulator, BETA, &request(&messages)).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
}
