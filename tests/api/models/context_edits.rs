//! Context edits: the session asks the model server to leave out or summarize parts of the history.

use serde_json::{Value, json};

use crate::support::{TestApp, calls, says};

fn clears_results() -> Value {
    json!({ "edits": [{ "type": "clear_tool_uses_20250919",
        "trigger": { "type": "tool_uses", "value": 2 },
        "keep": { "type": "tool_uses", "value": 1 } }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn edits_are_sent_with_every_request_and_their_effects_are_reported() {
    let rounds = [calls("get_time", json!({})), calls("get_time", json!({})), says("Done.")];
    let app = TestApp::start(crate::support::replies(&rounds)).await;
    let session = app.session_with(json!({ "context": clears_results() })).await;
    let shown = session.read().await["context"]["edits"].clone();
    assert_eq!(shown, clears_results()["edits"]);
    session.ask("What time is it?").await;
    let upstream = app.upstream();
    assert_eq!(upstream.len(), 3);
    for index in 0..3 {
        assert_eq!(upstream.body(index)["context_management"], clears_results());
        let betas = &upstream.requests[index].headers["anthropic-beta"];
        assert_eq!(betas, "context-management-2025-06-27");
    }
    let events = session.events().await;
    let ends: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "span.model_request_end").collect();
    assert_eq!(ends[0].get("applied_edits"), None);
    let applied = &ends[2]["applied_edits"][0];
    assert_eq!(applied["type"], "clear_tool_uses_20250919");
    assert_eq!(applied["cleared_tool_uses"], 1);
    // The stored history and the sent history are complete.
    let results = upstream.text(2).matches("\"tool_result\"").count();
    assert_eq!(results, 2);
}

/// The message has about 60,000 tokens in the simulator's count.
#[tokio::test(flavor = "multi_thread")]
async fn a_summary_within_a_reply_is_reported_and_stays_in_the_history() {
    let app = TestApp::start(crate::support::replies(&[says("Yes.")])).await;
    let edits = json!([{ "type": "compact_20260112",
        "trigger": { "type": "input_tokens", "value": 50_000 } }]);
    let session = app.session_with(json!({ "context": { "edits": edits } })).await;
    let run = session.ask(&"x".repeat(240_000)).await;
    assert_eq!(run["output_text"], "Yes.");
    let events = session.events().await;
    let compacted = events.iter().find(|event| event["type"] == "agent.context_compacted").unwrap();
    assert!(compacted["tokens_before"].as_i64().unwrap() > 50_000, "{compacted}");
    assert!(compacted["tokens_after"].as_i64().unwrap() < 50_000, "{compacted}");
    assert_eq!(compacted.get("up_to"), None);
    let kinds: Vec<Value> = session.history().await[1]["message"]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| block["type"].clone())
        .collect();
    assert_eq!(kinds, ["compaction", "text"]);
    // The usage counts both the summary and the answer.
    assert!(run["usage"]["input_tokens"].as_i64().unwrap() > 50_000, "{}", run["usage"]);
    session.ask("And now?").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_after_the_summary_is_resumed() {
    let app = TestApp::start(crate::support::replies(&[says("Yes.")])).await;
    let edits = json!([{ "type": "compact_20260112", "pause_after_compaction": true,
        "trigger": { "type": "input_tokens", "value": 50_000 } }]);
    let session = app.session_with(json!({ "context": { "edits": edits } })).await;
    let run = session.ask(&"x".repeat(240_000)).await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Yes.")));
    assert_eq!(app.upstream().len(), 2);
    let events = session.events().await;
    let compacted = events.iter().find(|event| event["type"] == "agent.context_compacted").unwrap();
    assert_eq!(compacted.get("tokens_after"), None, "the reply paused before the answer");
}
