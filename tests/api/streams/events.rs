//! Event streams: their format, and that a reconnecting client receives every event exactly once.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{
    RawStream, Received, Session, Setup, TestApp, calls, durable, problem, replies, says,
    stops_short,
};

/// A script with thinking, text, two calls and an answer: all types of events and previews.
fn eventful() -> Value {
    replies(&[
        json!({ "content": [
            { "type": "thinking", "thinking": "Two files, then." },
            { "type": "text", "text": "I will look at\nboth of them." },
            { "type": "tool_use", "name": "read_file", "input": { "path": "a.txt" } },
            { "type": "tool_use", "name": "read_file", "input": { "path": "b.txt" } } ] }),
        says("They say hello."),
    ])
}

fn slowly(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "pace_ms": 40, "chunk": 6 })
}

/// Concatenates the previews of an event. An `event_start` resets the text.
fn preview_text(events: &[Received], id: &str) -> String {
    let mut text = String::new();
    for Received { data, .. } in events {
        if data["type"] == "event_start" && data["event"]["id"] == id {
            text.clear();
        } else if data["type"] == "event_delta" && data["event_id"] == id {
            let delta = &data["delta"];
            let part = delta["content"]["text"].as_str().or(delta["partial_json"].as_str());
            text.push_str(part.unwrap());
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_consists_of_simple_frames() {
    let app = TestApp::start(eventful()).await;
    let session = app.session().await;
    let head = format!(
        "POST {} HTTP/1.1\r\naccept: text/event-stream\r\ncontent-type: application/json",
        session.path("/messages")
    );
    let body = r#"{"content":"What do\n they say?"}"#;
    let mut stream = RawStream::open(app.address, &head, body).await;
    for line in [
        "http/1.1 200 ok\r\n",
        "\r\ncontent-type: text/event-stream\r\n",
        "\r\ncache-control: private, no-cache, no-store, no-transform\r\n",
        "\r\nx-accel-buffering: no\r\n",
        "\r\ntransfer-encoding: chunked\r\n",
    ] {
        assert!(stream.head.contains(line), "{line:?}: {}", stream.head);
    }
    assert!(!stream.head.contains("\r\nconnection:"), "{}", stream.head);
    stream.read_to_end().await;
    assert!(!stream.body.contains('\r'));

    let frames = stream.body.strip_prefix("retry: 2000\n").unwrap();
    let frames = frames.strip_suffix("\n\n").unwrap();
    let mut durable = Vec::new();
    for frame in frames.split("\n\n") {
        let mut lines = frame.lines().peekable();
        let id = lines.next_if(|line| line.starts_with("id: "));
        let name = lines.next().unwrap().strip_prefix("event: ").unwrap();
        let data = lines.next().unwrap().strip_prefix("data: ").unwrap();
        assert_eq!(lines.next(), None, "{frame}");
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["type"], name);
        assert_eq!(id.map(|id| id[4..].parse().unwrap()), data["seq"].as_i64());
        if id.is_some() {
            durable.push(data);
        }
    }
    assert_eq!(durable, session.events().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_stream_has_keep_alive_comments() {
    let setup = Setup { keep_alive_every: Some(Duration::from_millis(200)), ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let session = app.session().await;
    let head = format!("GET {} HTTP/1.1", session.path("/events/stream"));
    let mut stream = RawStream::open(app.address, &head, "").await;
    stream.read_until(":\n", 3).await;
    assert_eq!(stream.body, "retry: 2000\n:\n:\n:\n");
    session.ask("Hi").await;
    stream.read_until("session.status_idle\"", 1).await;
    stream.read_until("}\n\n:\n:\n", 1).await;
    drop(stream);
}

#[test]
fn keep_alive_comments_are_sent_every_ten_seconds_by_default() {
    assert_eq!(twostep::http::KEEP_ALIVE_INTERVAL, Duration::from_secs(10));
}

/// Reads a stream with reconnects: disconnects after `step` numbered events and resumes after the
/// last one, until `count` events were read.
async fn read_with_reconnects(
    session: &Session<'_>,
    path: &str,
    step: usize,
    count: usize,
) -> Vec<Value> {
    let mut seen = Vec::new();
    let mut last = None;
    while seen.len() < count {
        let mut stream = session.open(path, last).await;
        // Previews are sent again after each reconnect, so only numbered events count as progress.
        let mut numbered = 0;
        while numbered < step && seen.len() < count {
            let event = stream.next().await.expect("the stream ended too early");
            if event.id.is_some() {
                last = event.id;
                numbered += 1;
                seen.push(event.data);
            }
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reconnects_after_every_k_events_receives_each_event_once() {
    let app = TestApp::start(eventful()).await;
    app.write_file("a.txt", "hello");
    app.write_file("b.txt", "hello");
    let session = app.session().await;
    let run = session.ask("What do they say?").await;
    let all = session.events().await;
    let paths = [session.run_stream(&run), session.path("/events/stream")];
    for path in &paths {
        for step in 1..=all.len() {
            let seen = read_with_reconnects(&session, path, step, all.len()).await;
            assert_eq!(seen, all, "{path} in steps of {step}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reconnects_during_a_run_receives_each_event_once() {
    let mut script = eventful();
    script["conversations"][0]["replies"][0]["pace_ms"] = 10.into();
    script["conversations"][0]["replies"][1]["pace_ms"] = 10.into();
    let app = TestApp::start(script).await;
    app.write_file("a.txt", "hello");
    app.write_file("b.txt", "hello");
    for step in [1, 2, 3, 5] {
        let session = app.session().await;
        let run = session.post(json!({ "content": format!("In steps of {step}") })).await;
        let paths = [session.run_stream(&run), session.path("/events/stream")];
        // 15 events: the message, the start, thinking, two texts, two calls with their results, two
        // requests with their ends, the usage, and the end.
        let (one, two) = tokio::join!(
            read_with_reconnects(&session, &paths[0], step, 15),
            read_with_reconnects(&session, &paths[1], step, 15),
        );
        let all = session.events().await;
        assert_eq!(all.len(), 15, "{all:#?}");
        assert_eq!((&one, &two), (&all, &all), "in steps of {step}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_starts_after_the_event_that_the_client_names() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let run = session.ask("Hi").await;
    let all = session.events().await;
    let last = all.len();
    let path = session.run_stream(&run);
    let first_of = async |path: String, header: Option<i64>| {
        session.open(&path, header).await.next().await.unwrap().id
    };
    assert_eq!(first_of(path.clone(), None).await, Some(1));
    assert_eq!(first_of(format!("{path}?after=3"), None).await, Some(4));
    assert_eq!(first_of(format!("{path}?after=1"), Some(4)).await, Some(5));
    let of_session = session.path("/events/stream?after=2");
    assert_eq!(first_of(of_session, Some(3)).await, Some(4));
    for (after, status) in [(last - 1, 200), (last, 204)] {
        let response = app.get(&format!("{path}?after={after}")).send().await.unwrap();
        assert_eq!(response.status().as_u16(), status);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_after_an_event_that_does_not_exist_yet_is_refused() {
    let app = TestApp::start(replies(&[stops_short("Well, well."), says("Hello.")])).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Hi" })).await;
    for path in [session.run_stream(&run), session.path("/events/stream")] {
        let response = app.get(&path).header("last-event-id", "999").send().await;
        problem(response.unwrap(), 400, "invalid_cursor").await;
    }
    session.cancel(&run).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_session_stays_open_across_runs() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let mut stream = session.open(&session.path("/events/stream"), None).await;
    let mut seen = Vec::new();
    for text in ["One", "Two"] {
        session.ask(text).await;
        loop {
            let event = stream.next().await.unwrap();
            let is_last = event.name == "session.status_idle";
            seen.push(event);
            if is_last {
                break;
            }
        }
    }
    assert_eq!(durable(&seen), session.events().await);
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_reader_receives_streaming_text_from_its_start() {
    let app = TestApp::start(replies(&[slowly("one two three four five six seven")])).await;
    let session = app.session().await;
    let mut early = session.stream("Count").await;
    let mut seen = vec![early.until("event_start").await];
    for _ in 0..3 {
        seen.push(early.until("event_delta").await);
    }
    let run = json!({ "id": seen[0].data["run_id"] });
    let mut late = session.open(&session.run_stream(&run), None).await;
    let started = late.until("event_start").await;
    assert_eq!(started.data, seen[0].data);
    let caught_up = late.next().await.unwrap();
    let id = started.data["event"]["id"].as_str().unwrap();
    let text = preview_text(std::slice::from_ref(&caught_up), id);
    assert!(text.starts_with(&preview_text(&seen, id)), "{text:?}");

    let (early, late) = tokio::join!(early.rest(), late.rest());
    let whole = "one two three four five six seven";
    assert_eq!(text + &preview_text(&late, id), whole);
    assert_eq!(preview_text(&seen, id) + &preview_text(&early, id), whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn previews_add_up_to_the_event_that_replaces_them() {
    let mut script = eventful();
    script["conversations"][0]["replies"][0]["pace_ms"] = 5.into();
    let app = TestApp::start(script).await;
    let events = app.session().await.stream("What do they say?").await.rest().await;
    let mut replaced = 0;
    for event in durable(&events) {
        let id = event["id"].as_str().unwrap();
        let whole = match event["type"].as_str().unwrap() {
            "agent.message" | "agent.thinking" => {
                event["content"][0]["text"].as_str().unwrap().to_owned()
            }
            "agent.tool_use" => event["input"].to_string(),
            _ => continue,
        };
        assert_eq!(preview_text(&events, id), whole);
        replaced += 1;
    }
    assert_eq!(replaced, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn previews_can_be_disabled_and_events_are_the_same_without_them() {
    let mut script = eventful();
    script["conversations"][0]["replies"][0]["pace_ms"] = 10.into();
    let app = TestApp::start(script).await;
    let session = app.session().await;
    let first = session.stream("What do they say?").await;
    let run = app.get(&session.path("/runs")).send().await.unwrap();
    let run = run.json::<Value>().await.unwrap()["data"][0].clone();
    let path = format!("{}?deltas=false", session.run_stream(&run));
    let second = session.open(&path, None).await;
    let (first, second) = tokio::join!(first.rest(), second.rest());
    assert!(first.iter().any(|event| event.name == "event_delta"));
    assert!(second.iter().all(|event| event.id.is_some()));
    assert_eq!(durable(&first), durable(&second));
    assert_eq!(durable(&first), session.events().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_receives_only_the_types_that_it_names() {
    let app = TestApp::start(replies(&[slowly("one two three")])).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Count" })).await;
    let path = session.run_stream(&run);
    let few = session.open(&format!("{path}?types=agent.message,user.message"), None).await;
    let previews = session.open(&format!("{path}?types=event_delta"), None).await;
    let (few, previews) = tokio::join!(few.rest(), previews.rest());
    let names = few.iter().map(|event| event.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["user.message", "agent.message"]);
    assert!(!previews.is_empty());
    assert!(previews.iter().all(|event| event.name == "event_delta"), "{previews:?}");
    // The filter also applies to stored events, and after any event number.
    let all = session.events().await;
    let last = all.len().to_string();
    let one = format!("{path}?types=session.status_idle,unheard.of&after=2");
    assert_eq!(durable(&session.open(&one, None).await.rest().await), all[all.len() - 1..]);
    let none = app.get(&format!("{path}?types=user.message&after={last}")).send().await.unwrap();
    assert_eq!(none.status(), 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_reader_does_not_delay_a_run() {
    let long = "a long line of words ".repeat(100_000);
    let script = replies(&[
        calls("get_time", json!({})),
        json!({ "content": [
        { "type": "text", "text": long }], "chunk": 1000 }),
    ]);
    let app = TestApp::start(script).await;
    let session = app.session().await;
    // The reader opens a stream and reads only the head.
    let head = format!("GET {} HTTP/1.1", session.path("/events/stream"));
    let stalled = RawStream::open(app.address, &head, "").await;
    // The reader continues to read only after the run.
    let events = session.stream("Talk").await.rest().await;
    assert_eq!(durable(&events), session.events().await);
    let mut stalled = stalled;
    stalled.read_until("event: session.status_idle", 1).await;
    let numbered = |line: &&str| line.starts_with("id: ");
    let ids: Vec<&str> = stalled.body.lines().filter(numbered).collect();
    let all: Vec<String> =
        (1..=events.last().unwrap().id.unwrap()).map(|id| format!("id: {id}")).collect();
    assert_eq!(ids, all);
    drop(stalled);
}
