//! Histories and streams that join: a page of the history states the newest event that it reflects,
//! and a stream continues exactly there.

use serde_json::{Value, json};

use crate::support::{EventStream, Session, Setup, TestApp, calls_as, says};

/// The types of events whose content is part of the history.
const PLACED: [&str; 6] = [
    "user.message",
    "agent.message",
    "agent.tool_use",
    "agent.custom_tool_use",
    "agent.tool_result",
    "user.custom_tool_result",
];

async fn page(session: &Session<'_>, query: &str) -> Value {
    let path = session.path(&format!("/messages?{query}"));
    session.app.get(&path).send().await.unwrap().json().await.unwrap()
}

/// The ids of the events whose content is part of the history.
fn placed<'a>(events: impl IntoIterator<Item = &'a Value>) -> Vec<String> {
    let is_placed = |event: &&Value| PLACED.contains(&event["type"].as_str().unwrap());
    let events = events.into_iter().filter(is_placed);
    events.map(|event| format!("{} {}", event["type"], event["id"])).collect()
}

/// The ids of the events that the items of a page, and its events without an item, report.
fn reported(page: &Value) -> Vec<String> {
    let items = page["data"].as_array().unwrap().iter().rev();
    let of_items = items.flat_map(|item| item["events"].as_array().cloned().unwrap_or_default());
    let unplaced = page["unplaced_events"].as_array().cloned().unwrap_or_default();
    let all: Vec<Value> = of_items.chain(unplaced).collect();
    placed(&all)
}

/// Reads the stream of the session after an event, up to this many ends of runs.
async fn streamed(session: &Session<'_>, after: &Value, ends: usize) -> Vec<Value> {
    let path = session.path(&format!("/events/stream?deltas=false&after={after}"));
    let mut stream = EventStream::new(session.app.get(&path).send().await.unwrap());
    let mut events = Vec::new();
    for _ in 0..ends {
        loop {
            let event = stream.next().await.unwrap();
            let is_end = event.name == "session.status_idle"
                && event.data["stop_reason"]["type"] != "requires_action";
            events.push(event.data);
            if is_end {
                break;
            }
        }
    }
    events
}

/// The snapshot and the stream after it have each event of the history once.
async fn assert_joined(session: &Session<'_>, snapshot: &Value, later: &[Value]) {
    let whole = session.events().await;
    let mut joined = reported(snapshot);
    joined.extend(placed(later));
    let mut expected = placed(&whole);
    joined.sort();
    expected.sort();
    assert_eq!(joined, expected, "{snapshot}");
}

fn door() -> Value {
    json!({ "name": "open_door", "description": "Opens a door.", "client": true,
            "input_schema": { "type": "object" } })
}

async fn app() -> TestApp {
    let call = |id| (id, "open_door", json!({}));
    let opened = calls_as(&[call("toolu_1"), call("toolu_2")]);
    let script = json!({ "conversations": [
        { "when": "Open", "replies": [opened, says("Both are open.")] },
        { "replies": [says("Yes.")] },
    ] });
    TestApp::start_with(script, Setup::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_in_the_middle_of_a_run_continues_in_the_stream() {
    let app = app().await;
    let session = app.session_with(json!({ "tools": [door()] })).await;
    session.ask("Hello").await;
    let run = session.ask("Open").await;
    // A result whose round is open, and a queued message.
    let result = |id| json!([{ "tool_use_id": id, "content": "open" }]);
    session.accepted(session.submit_results(&result("toolu_1"))).await;
    let queued = session.post(json!({ "content": "And then?" })).await;
    let snapshot = page(&session, "order=desc").await;
    assert_eq!(snapshot["last_seq"], session.read().await["last_seq"]);
    let unplaced = placed(snapshot["unplaced_events"].as_array().unwrap());
    assert_eq!(unplaced.len(), 2, "{snapshot}");

    session.accepted(session.submit_results(&result("toolu_2"))).await;
    session.settled(&run).await;
    session.settled(&queued).await;
    let later = streamed(&session, &snapshot["last_seq"], 2).await;
    assert_joined(&session, &snapshot, &later).await;
    // A snapshot of the settled session has everything.
    let settled = page(&session, "order=desc").await;
    assert_eq!(settled["unplaced_events"], json!([]));
    assert_joined(&session, &settled, &[]).await;
    assert_eq!(settled["last_seq"], later.last().unwrap()["seq"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_and_events_name_each_other() {
    let app = app().await;
    let session = app.session_with(json!({ "tools": [door()] })).await;
    session.ask("Open").await;
    let result = |id| json!({ "tool_use_id": id, "content": "open" });
    let results = json!([result("toolu_2"), result("toolu_1")]);
    let request = session.submit_results(&results).header("prefer", "wait=60");
    assert_eq!(request.send().await.unwrap().status(), 200);
    let events = session.events().await;
    let history = session.history_with_events().await;
    assert_eq!(history.len(), 4);
    for item in &history {
        let reported = item["events"].as_array().unwrap();
        assert!(!reported.is_empty(), "{item}");
        for named in reported {
            let seq = usize::try_from(named["seq"].as_i64().unwrap()).unwrap();
            let event = &events[seq - 1];
            assert_eq!((&event["id"], &event["type"]), (&named["id"], &named["type"]));
            if event["type"] != "user.custom_tool_result" {
                assert_eq!(event["message_id"], item["message"]["id"], "{event}");
            }
        }
    }
    let types: Vec<Vec<&str>> = history
        .iter()
        .map(|item| {
            let events = item["events"].as_array().unwrap().iter();
            events.map(|event| event["type"].as_str().unwrap()).collect()
        })
        .collect();
    assert_eq!(
        types,
        [
            vec!["user.message"],
            vec!["agent.custom_tool_use", "agent.custom_tool_use"],
            vec!["user.custom_tool_result", "user.custom_tool_result"],
            vec!["agent.message"],
        ]
    );
    // Every page has the events of its messages, wherever it begins.
    for (index, item) in history.iter().enumerate() {
        let one = page(&session, &format!("limit=1&after={index}")).await;
        assert_eq!(one["data"][0], *item);
        assert_eq!(one["unplaced_events"].is_null(), index < 3, "{one}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_a_fork_continues_in_its_stream() {
    let app = app().await;
    let source = app.session_with(json!({ "tools": [door()] })).await;
    source.ask("Hello").await;
    let opened = source.ask("Open").await;
    // The fork answers the calls of the last message that it inherits.
    let request = app.post(&source.path("/forks")).json(&json!({}));
    let fork: Value = request.send().await.unwrap().json().await.unwrap();
    let fork = app.existing_session(fork["id"].as_str().unwrap());
    let run = fork.post(json!({ "content": "Go on" })).await;
    let snapshot = page(&fork, "order=desc").await;
    let run = fork.settled(&run).await;
    // The run may have settled before the snapshot.
    let ends = usize::from(run["seq"].as_i64() > snapshot["last_seq"].as_i64());
    let later = streamed(&fork, &snapshot["last_seq"], ends).await;

    let inherited = fork.read().await["forked_from"]["message_seq"].as_i64().unwrap();
    let mut own = snapshot.clone();
    let items = own["data"].as_array_mut().unwrap();
    let of_source: Vec<Value> =
        items.extract_if(.., |item| item["seq"].as_i64().unwrap() <= inherited).collect();
    assert_joined(&fork, &own, &later).await;
    // Inherited messages name the events of the source, which have no number in the fork.
    let page_of_source = json!({ "data": of_source });
    assert_eq!(reported(&page_of_source), placed(&source.events().await));
    for item in &of_source {
        let events = item["events"].as_array().unwrap();
        assert!(events.iter().all(|event| event.get("seq").is_none()), "{item}");
    }
    source.cancel(&opened).await;
    source.settled(&opened).await;
}
