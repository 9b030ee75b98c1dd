//! A stream that breaks at any event: the request is retried, the answer is complete, no part of
//! the broken reply is stored, and its previews are reset.

use std::collections::HashMap;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::models::recorded_streams::stream;
use crate::support::{Received, TestApp, durable, says};

/// Thinking with its signature, text, and a call.
const SAMPLE: &str = "04_thinking_signature_tool_use";

/// A stream that fails in the given way after this number of events.
fn failure(sse: &str, way: &str, events: usize) -> Value {
    let mut broken = json!({ "raw_sse": sse });
    broken[way] = events.into();
    broken
}

/// The replies to a message with this text: the failures, the complete reply, and an answer.
fn conversation(text: &str, sse: &str, failures: &[Value]) -> Value {
    let whole = json!({ "raw_sse": sse, "fail_first": failures });
    json!({ "when": text, "replies": [whole, says("Done.")] })
}

/// The agent events, without the members that differ between sessions.
fn agent_events(events: &[Value]) -> Vec<Value> {
    let is_of_agent = |event: &&Value| event["type"].as_str().unwrap().starts_with("agent.");
    let events = events.iter().filter(is_of_agent);
    events
        .map(|event| json!([event["type"], event["content"], event["name"], event["input"]]))
        .collect()
}

/// The texts of the previews by event id. A start event resets its text.
fn previewed(events: &[Received]) -> HashMap<String, String> {
    let mut texts: HashMap<String, String> = HashMap::new();
    for Received { data, .. } in events {
        if data["type"] == "event_start" {
            let id = data["event"]["id"].as_str().unwrap();
            texts.insert(id.to_owned(), String::new());
        } else if data["type"] == "event_delta" {
            let delta = &data["delta"];
            let part = delta["content"]["text"].as_str().or(delta["partial_json"].as_str());
            texts.get_mut(data["event_id"].as_str().unwrap()).unwrap().push_str(part.unwrap());
        }
    }
    texts
}

/// The expected preview texts of these events.
fn expected_previews(events: &[Value]) -> HashMap<String, String> {
    let text_of = |event: &Value| match event["type"].as_str().unwrap() {
        "agent.message" | "agent.thinking" => {
            Some(event["content"][0]["text"].as_str().unwrap().to_owned())
        }
        "agent.tool_use" => Some(event["input"].to_string()),
        _ => None,
    };
    let previewed = events
        .iter()
        .filter_map(|event| Some((event["id"].as_str().unwrap().to_owned(), text_of(event)?)));
    previewed.collect()
}

/// The same texts with JSON parsed, because the model adds white space to its JSON.
fn parsed(texts: HashMap<String, String>) -> HashMap<String, Value> {
    let parse = |text: String| serde_json::from_str(&text).unwrap_or(Value::String(text));
    texts.into_iter().map(|(id, text)| (id, parse(text))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_can_break_at_any_event() {
    let sse = stream(SAMPLE);
    let count = sse.matches("\n\n").count();
    assert!(count > 10);
    let mut texts = vec!["whole".to_owned()];
    let mut conversations = vec![conversation("whole", &sse, &[])];
    for way in ["error_after", "cut_after"] {
        // A reply with its last event is complete.
        for events in 0..count {
            let text = format!("{way} {events} events");
            conversations.push(conversation(&text, &sse, &[failure(&sse, way, events)]));
            texts.push(text);
        }
    }
    let script = json!({ "conversations": conversations, "otherwise": "refuse" });
    let app = TestApp::start(script).await;
    let played = texts.iter().map(async |text| {
        let session = app.session().await;
        let events = session.stream(text).await.rest().await;
        let content: Vec<Value> =
            session.history().await.iter().map(|item| item["message"]["content"].clone()).collect();
        (events, content)
    });
    let mut played = join_all(played).await.into_iter();
    let (whole, history) = played.next().unwrap();
    let expected = agent_events(&durable(&whole));
    for ((events, content), text) in played.zip(&texts[1..]) {
        let stored = durable(&events);
        assert_eq!(agent_events(&stored), expected, "{text}");
        assert_eq!(content[1..], history[1..], "{text}");
        assert_eq!(parsed(previewed(&events)), parsed(expected_previews(&stored)), "{text}");
        let again = stored.iter().filter(|event| event["type"] == "session.status_rescheduled");
        assert_eq!(again.count(), 1, "{text}");
    }
    assert_eq!(app.upstream().len(), 2 + 2 * count * 3);
}
