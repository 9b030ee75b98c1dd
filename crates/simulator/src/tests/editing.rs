//! Edits of the context on the server, and automatic summaries.

use serde_json::{Value, json};

use super::client::{
    accumulate, events, post_message, post_message_with, request, script, send, start, streamed,
};

const CLEARING: &str = "context-management-2025-06-27";
const COMPACTING: &str = "compact-2026-01-12";

/// Two rounds; an edit clears the result of the first.
fn edited() -> Value {
    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "read_file", "input": {} });
    let result = |id: &str| {
        json!({ "type": "tool_result", "tool_use_id": id,
                                    "content": "x".repeat(4_000) })
    };
    let mut body = request(&json!([
        { "role": "user", "content": "hello" },
        { "role": "assistant", "content": [call("toolu_A")] },
        { "role": "user", "content": [result("toolu_A")] },
        { "role": "assistant", "content": [call("toolu_B")] },
        { "role": "user", "content": [result("toolu_B")] },
    ]));
    body["context_management"] = json!({ "edits": [{
        "type": "clear_tool_uses_20250919", "trigger": { "type": "tool_uses", "value": 2 },
        "keep": { "type": "tool_uses", "value": 1 } }] });
    body
}

#[tokio::test]
async fn a_reply_reports_the_applied_edits_and_counts_less() {
    let simulator = start(&script(&json!([{ "repeat": 9 }]))).await;
    let body = edited();
    let reply = post_message_with(&simulator, CLEARING, &body).await.json();
    let cleared = reply["context_management"]["applied_edits"][0]["cleared_input_tokens"].clone();
    assert_eq!(
        reply["context_management"],
        json!({ "applied_edits": [{
        "type": "clear_tool_uses_20250919", "cleared_tool_uses": 1, "cleared_input_tokens": cleared,
    }] })
    );
    let all = body.to_string().len() as u64 / 4 + 1;
    assert!(cleared.as_u64().unwrap() > 900);
    assert_eq!(reply["usage"]["input_tokens"], all - cleared.as_u64().unwrap());

    let stream = post_message_with(&simulator, CLEARING, &streamed(body)).await.body;
    let last = events(&stream).into_iter().rfind(|(name, _)| name == "message_delta").unwrap().1;
    assert_eq!(last["context_management"], reply["context_management"]);
}

#[tokio::test]
async fn a_reply_reports_no_edit_without_edits_or_without_an_effect() {
    let simulator = start(&json!({})).await;
    let mut body = request(&json!([{ "role": "user", "content": "hello" }]));
    assert_eq!(post_message(&simulator, &body).await.json().get("context_management"), None);
    body["context_management"] = edited()["context_management"].clone();
    let reply = post_message_with(&simulator, CLEARING, &body).await.json();
    assert_eq!(reply["context_management"], json!({ "applied_edits": [] }));
}

#[tokio::test]
async fn a_count_reports_the_original_and_the_remaining_tokens() {
    let simulator = start(&json!({})).await;
    let mut body = edited();
    body.as_object_mut().unwrap().shift_remove("max_tokens");
    let headers =
        format!("x-api-key: k\r\nanthropic-version: 2023-06-01\r\nanthropic-beta: {CLEARING}\r\n");
    let route = "POST /v1/messages/count_tokens";
    let count = send(&simulator, route, &headers, &body.to_string()).await.json();
    let original = body.to_string().len() as u64 / 4 + 1;
    assert_eq!(count["context_management"], json!({ "original_input_tokens": original }));
    assert!(count["input_tokens"].as_u64().unwrap() < original - 900);
}

/// A request that is long enough for an automatic summary.
fn long(fields: &Value) -> Value {
    let mut body = request(&json!([{ "role": "user", "content": "x".repeat(210_000) }]));
    let mut edit = json!({ "type": "compact_20260112",
                           "trigger": { "type": "input_tokens", "value": 50_000 } });
    for (field, value) in fields.as_object().unwrap() {
        edit[field] = value.clone();
    }
    body["context_management"] = json!({ "edits": [edit] });
    body
}

fn answers() -> Value {
    json!({
        "compaction": [{ "content": [{ "type": "compaction", "content": "Many letters." }] }],
        "conversations": [{ "replies": [
            { "content": [{ "type": "thinking", "thinking": "hm" },
                          { "type": "text", "text": "Letters." }] },
            { "content": [{ "type": "text", "text": "More letters." }] },
        ] }],
    })
}

#[tokio::test]
async fn an_automatic_summary_precedes_the_reply() {
    let simulator = start(&answers()).await;
    let mut body = long(&json!({}));
    let reply = post_message_with(&simulator, COMPACTING, &body).await.json();
    let block = json!({ "type": "compaction", "content": "Many letters." });
    assert_eq!(reply["content"][0], block);
    assert_eq!(
        (&reply["content"][2]["text"], &reply["stop_reason"]),
        (&json!("Letters."), &json!("end_turn"))
    );
    let usage = &reply["usage"];
    let kinds = [0, 1].map(|nth| usage["iterations"][nth]["type"].clone());
    assert_eq!(kinds, [json!("compaction"), json!("message")]);
    assert!(usage["iterations"][0]["input_tokens"].as_u64().unwrap() > 50_000);
    assert!(usage["input_tokens"].as_u64().unwrap() < 200);
    for field in ["input_tokens", "output_tokens"] {
        assert_eq!(usage[field], usage["iterations"][1][field]);
    }
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": reply["content"] }));
    messages.push(json!({ "role": "user", "content": "And now?" }));
    let next = post_message_with(&simulator, COMPACTING, &body).await.json();
    assert_eq!(next["content"][1]["text"], "Letters.", "what is summed up is not summed up again");
    assert!(next["usage"]["input_tokens"].as_u64().unwrap() < 300);
    body["messages"].as_array_mut().unwrap().remove(0);
    let without = post_message_with(&simulator, COMPACTING, &body).await;
    assert_eq!(without.status, 200, "what stands before may be left out: {}", without.body);
}

#[tokio::test]
async fn an_unreadable_block_before_a_summary_is_not_refused() {
    let broken = json!({ "type": "image", "message": "Could not process image" });
    let simulator = start(&json!({ "unreadable": [broken] })).await;
    let image = json!({ "type": "image",
                        "source": { "type": "url", "url": "https://example.com/a.png" } });
    let summary = json!({ "type": "compaction", "content": "An image." });
    let mut body = long(&json!({}));
    body["messages"] = json!([
        { "role": "user", "content": [image] },
        { "role": "assistant", "content": [summary] },
        { "role": "user", "content": "hello" },
    ]);
    let reply = post_message_with(&simulator, COMPACTING, &body).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    body["messages"].as_array_mut().unwrap().remove(1);
    assert_eq!(post_message_with(&simulator, COMPACTING, &body).await.status, 400);
}

#[tokio::test]
async fn a_streamed_summary_is_one_delta_and_the_counts_change() {
    let simulator = start(&answers()).await;
    let body = streamed(long(&json!({})));
    let stream = post_message_with(&simulator, COMPACTING, &body).await.body;
    let all = events(&stream);
    assert_eq!(all[1].1["content_block"], json!({ "type": "compaction", "content": null }));
    let delta = json!({ "type": "compaction_delta", "content": "Many letters." });
    assert_eq!((&all[3].1["delta"], all[4].0.as_str()), (&delta, "content_block_stop"));
    assert!(all[0].1["message"]["usage"]["input_tokens"].as_u64().unwrap() > 50_000);
    assert_eq!(all[0].1["message"]["usage"].get("iterations"), None);
    let sum = accumulate(&stream);
    assert!(sum["usage"]["input_tokens"].as_u64().unwrap() < 200);
    assert_eq!(sum["content"][0]["content"], "Many letters.");
    assert_eq!(sum["context_management"], json!({ "applied_edits": [] }));
}

#[tokio::test]
async fn after_a_pause_the_reply_follows_the_summary() {
    let simulator = start(&answers()).await;
    let mut body = long(&json!({ "pause_after_compaction": true }));
    let paused = post_message_with(&simulator, COMPACTING, &body).await.json();
    let block = json!({ "type": "compaction", "content": "Many letters." });
    assert_eq!(
        (&paused["content"], &paused["stop_reason"]),
        (&json!([block]), &json!("compaction"))
    );
    assert_eq!(paused["usage"]["iterations"].as_array().unwrap().len(), 1);
    assert_eq!(paused["usage"]["input_tokens"], 0);
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": paused["content"] }));
    let reply = post_message_with(&simulator, COMPACTING, &body).await.json();
    assert_eq!(reply["content"][1]["text"], "Letters.");
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": reply["content"] }));
    messages.push(json!({ "role": "user", "content": "And now?" }));
    let next = post_message_with(&simulator, COMPACTING, &body).await;
    assert_eq!(next.status, 200, "thinking is bound to the summary: {}", next.body);
}
