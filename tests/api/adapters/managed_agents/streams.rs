//! The stream of a session.

use serde_json::{Value, json};

use super::{Sdk, kinds, refused, user};
use crate::support::{TestApp, replies, says};

/// A reply that begins with thinking.
fn thinks(text: &str) -> Value {
    json!({ "content": [{ "type": "thinking", "thinking": "Hm, let me see." }, { "type": "text", "text": text }],
            "chunk": 3 })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_the_present_and_replays_after_the_last_event_id() {
    let app = TestApp::start(replies(&[says("One."), says("Two.")])).await;
    let sdk = Sdk::new(&app);
    let session = sdk.session(json!([])).await;
    let mut first = sdk.stream(&session, "", None).await;
    sdk.send(&session, json!([user("First")])).await;
    let head = first.until("session.status_running").await;
    let seen = first.last;
    drop(first);

    // Another client with the last event that it has seen gets the rest once.
    let mut again = sdk.stream(&session, "", seen).await;
    let rest = again.until("session.status_idle").await;
    let whole: Vec<Value> = head.into_iter().chain(rest).collect();
    assert_eq!(sdk.events(&session).await, whole);

    // A new stream has only new events.
    let mut late = sdk.stream(&session, "", None).await;
    sdk.send(&session, json!([user("Second")])).await;
    let second = late.until("session.status_idle").await;
    assert_eq!(second[0]["content"][0]["text"], "Second");
    let mut replay = sdk.stream(&session, "", Some(0)).await;
    let (mut all, idle) = (Vec::new(), "session.status_idle");
    all.append(&mut replay.until(idle).await);
    all.append(&mut replay.until(idle).await);
    assert_eq!(sdk.events(&session).await, all);

    let path = format!("/sessions/{session}/events/stream");
    let (status, error) = refused(sdk.get(&path).header("last-event-id", "100000")).await;
    assert_eq!((status, &error["details"]["error_code"]), (400, &json!("invalid_cursor")));
}

#[tokio::test(flavor = "multi_thread")]
async fn previews_are_sent_for_the_requested_types_only() {
    // A reader that first hears of an event when it is stored gets no previews of it.
    let mut reply = thinks("It is noon.");
    reply["pace_ms"] = json!(50);
    let app = TestApp::start(json!({ "conversations": [{ "replies": [reply] }] })).await;
    let sdk = Sdk::new(&app);
    for (query, starts, has_text) in [
        ("", vec![], false),
        ("?event_deltas[]=agent.message", vec!["agent.message"], true),
        ("?event_deltas%5B%5D=agent.thinking", vec!["agent.thinking"], false),
        (
            "?event_deltas[]=agent.message&event_deltas[]=agent.thinking",
            vec!["agent.thinking", "agent.message"],
            true,
        ),
    ] {
        let session = sdk.session(json!([])).await;
        let mut stream = sdk.stream(&session, query, None).await;
        sdk.send(&session, json!([user("Hi")])).await;
        let events = stream.until("session.status_idle").await;
        let started = events.iter().filter(|event| event["type"] == "event_start");
        let started: Vec<&str> = started.map(|it| it["event"]["type"].as_str().unwrap()).collect();
        assert_eq!(started, starts, "{query}");
        let deltas: Vec<&Value> =
            events.iter().filter(|event| event["type"] == "event_delta").collect();
        let text: String = deltas
            .iter()
            .map(|delta| delta["delta"]["content"]["text"].as_str().unwrap())
            .collect();
        assert_eq!(text, if has_text { "It is noon." } else { "" }, "{query}");
        let message = events.iter().find(|event| event["type"] == "agent.message").unwrap();
        for delta in deltas {
            assert_eq!(delta["event_id"], message["id"]);
            assert_eq!(delta["delta"]["type"], "content_delta");
            assert!(delta.get("run_id").is_none());
        }
    }
    let session = sdk.session(json!([])).await;
    let path = format!("/sessions/{session}/events/stream?event_deltas[]=agent.tool_use");
    let (status, error) = refused(sdk.get(&path)).await;
    assert_eq!(
        (status, &error["details"]["errors"][0]["parameter"]),
        (400, &json!("event_deltas"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_the_service_alone_are_left_out_and_a_deletion_ends_the_stream() {
    let app = TestApp::start(replies(&[])).await;
    let sdk = Sdk::new(&app);
    let session = sdk.session(json!([])).await;
    let mut stream = sdk.stream(&session, "", None).await;
    // Only the title is a change in this protocol.
    let own = app.client.patch(app.url(&format!("/v1/sessions/{session}")));
    let mode = own.json(&json!({ "permission_mode": "plan" })).send().await.unwrap();
    assert_eq!(mode.status(), 200);
    sdk.create(&format!("/sessions/{session}"), json!({ "title": "Bells" })).await;
    let updated = stream.until("session.updated").await;
    assert_eq!(kinds(&updated), ["session.updated"]);
    assert_eq!(updated[0]["title"], "Bells");
    Sdk::success(sdk.delete(&format!("/sessions/{session}"))).await;
    let deleted = stream.until("session.deleted").await;
    assert!(deleted[0]["id"].is_string() && deleted[0]["processed_at"].is_string());
    assert_eq!(stream.next().await, None);
}
