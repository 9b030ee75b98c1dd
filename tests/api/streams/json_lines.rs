//! Streams as JSON lines: the same events as server-sent events, one per line.

use std::time::Duration;

use reqwest::Response;
use serde_json::{Value, json};

use crate::support::{RawStream, Session, Setup, TestApp, calls, problem, replies, says};

const JSON_LINES: &str = "application/jsonl";

/// Returns the lines of a finite stream. Each one must be JSON.
async fn lines(response: Response) -> Vec<Value> {
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], JSON_LINES);
    assert_eq!(response.headers()["cache-control"], "private, no-cache, no-store, no-transform");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    parsed(&response.text().await.unwrap())
}

fn parsed(text: &str) -> Vec<Value> {
    assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
    let parsed = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}"));
    text.lines().map(parsed).collect()
}

/// Returns the lines with an event number.
fn numbered(lines: &[Value]) -> Vec<Value> {
    lines.iter().filter(|line| line["seq"].is_i64()).cloned().collect()
}

async fn get(session: &Session<'_>, path: &str) -> Response {
    session.app.get(path).header("accept", JSON_LINES).send().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_answered_with_the_events_of_its_run_one_per_line() {
    let app = TestApp::start(replies(&[calls("get_time", json!({})), says("It\nis noon.")])).await;
    let session = app.session().await;
    let post =
        session.message(&json!({ "content": "What time is it?" })).header("accept", JSON_LINES);
    let response = post.send().await.unwrap();
    let run_path = response.headers()["content-location"].to_str().unwrap().to_owned();
    let all = lines(response).await;
    let events = session.events().await;
    assert_eq!(numbered(&all), events);
    assert!(all.iter().any(|line| line["type"] == "event_delta"), "{all:#?}");

    // The same as server-sent events, which now come from the database, without previews.
    let path = format!("{run_path}/stream");
    let frames = session.open(&path, None).await.rest().await;
    let frames: Vec<Value> = frames.into_iter().map(|frame| frame.data).collect();
    assert_eq!(lines(get(&session, &path).await).await, frames);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_lines_resumes_after_its_last_event() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let run = session.ask("Hi").await;
    let all = session.events().await;
    let path = session.run_stream(&run);
    assert_eq!(lines(get(&session, &format!("{path}?after=3")).await).await, all[3..]);
    let named = app.get(&format!("{path}?after=1")).header("accept", JSON_LINES);
    let named = named.header("last-event-id", "4").send().await.unwrap();
    assert_eq!(lines(named).await, all[4..]);
    let nothing_new = get(&session, &format!("{path}?after={}", all.len())).await;
    assert_eq!(nothing_new.status(), 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_message_without_new_events_has_no_line() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let post = || {
        let post = session.message(&json!({ "content": "Hi" })).header("accept", JSON_LINES);
        post.header("idempotency-key", "k")
    };
    let all = lines(post().send().await.unwrap()).await;
    assert_eq!(numbered(&all), session.events().await);
    let last = all.last().unwrap()["seq"].to_string();
    let again = post().header("last-event-id", last).send().await.unwrap();
    assert_eq!(lines(again).await, Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_filled_with_spaces_that_belong_to_the_next_line() {
    let setup = Setup { keep_alive_every: Some(Duration::from_millis(200)), ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let session = app.session().await;
    let path = session.path("/events/stream");
    let head = format!("GET {path} HTTP/1.1\r\naccept: {JSON_LINES}");
    let mut stream = RawStream::open(app.address, &head, "").await;
    stream.read_until(" ", 3).await;
    assert!(stream.body.chars().all(|letter| letter == ' '), "{:?}", stream.body);
    session.ask("Hi").await;
    // The last line of the run, and a keep-alive space.
    stream.read_until("\"end_turn\"}}\n ", 1).await;
    let whole = stream.body.trim_end_matches(' ').to_owned();
    drop(stream);
    assert_eq!(numbered(&parsed(&whole)), session.events().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_older_media_type_of_json_lines_is_accepted() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let run = session.ask("Hi").await;
    let older = app.get(&session.run_stream(&run)).header("accept", "application/x-ndjson");
    let older = older.send().await.unwrap();
    assert_eq!(older.headers()["content-type"], "application/x-ndjson");
    assert_eq!(parsed(&older.text().await.unwrap()), session.events().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsupported_media_type_is_refused() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let run = session.ask("Hi").await;
    for path in [session.run_stream(&run), session.path("/events/stream")] {
        for accept in ["application/json", "text/html", "text/event-stream;q=0"] {
            let request = app.get(&path).header("accept", accept);
            problem(request.send().await.unwrap(), 406, "not_acceptable").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lines_are_aborted_when_the_service_stops() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let mut response = get(&session, &session.path("/events/stream")).await;
    assert_eq!(response.chunk().await.unwrap().unwrap(), " ");
    app.stop().await;
    let was_aborted = loop {
        match response.chunk().await {
            Ok(Some(_)) => {}
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    assert!(was_aborted, "the stream ended as if it were complete");
}
