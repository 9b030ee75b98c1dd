//! A service that stops: it aborts incomplete streams, and the next service continues the runs.

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::time::timeout;
use twostep::http::Timeouts;

use crate::support::machine::HUNG;
use crate::support::{RawStream, Setup, TestApp, durable, replies, says, stops_short};

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_stops_aborts_its_streams_and_the_next_one_finishes_the_run() {
    let app = TestApp::start(replies(&[stops_short("Half of it is said.")])).await;
    let session = app.session().await;
    let mut of_run = session.stream("Tell me").await;
    let mut of_session = session.open(&session.path("/events/stream"), None).await;
    let mut seen = Vec::new();
    let delta = loop {
        let event = of_run.next().await.unwrap();
        if event.name == "event_delta" {
            break event;
        }
        seen.push(event);
    };
    let id = session.id.clone();
    drop(session);
    let watched = tokio::spawn(async move {
        let mut endings = Vec::new();
        for stream in [&mut of_run, &mut of_session] {
            endings.push(loop {
                match stream.try_next().await {
                    Ok(Some(_)) => {}
                    Ok(None) => break "clean",
                    Err(_) => break "aborted",
                }
            });
        }
        endings
    });
    let next = app.restarted(replies(&[says("Half of it is said.")])).await;
    assert_eq!(watched.await.unwrap(), ["aborted", "aborted"]);

    let session = next.existing_session(&id);
    let run = json!({ "id": delta.data["run_id"] });
    let last = seen.iter().filter_map(|event| event.id).max();
    let rest = session.open(&session.run_stream(&run), last).await.rest().await;
    let mut events = durable(&seen);
    events.extend(durable(&rest));
    assert_eq!(events, session.events().await);
    let run = session.settled(&run).await;
    assert_eq!(run["output_text"], "Half of it is said.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_stops_answers_waiting_requests() {
    let app = TestApp::start(replies(&[stops_short("Half of it.")])).await;
    let session = app.session().await;
    let waiting = session.message(&json!({ "content": "Tell me" })).header("prefer", "wait=60");
    let waiting = tokio::spawn(waiting.send());
    let run = loop {
        let runs = app.get(&session.path("/runs?status=running")).send().await.unwrap();
        let runs: Value = runs.json().await.unwrap();
        if let Some(run) = runs["data"].as_array().unwrap().first() {
            break run.clone();
        }
    };
    let id = session.id.clone();
    drop(session);
    let next = app.restarted(replies(&[says("All of it.")])).await;
    let response = waiting.await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::ACCEPTED);
    assert_eq!(response.json::<Value>().await.unwrap()["id"], run["id"]);
    let run = next.existing_session(&id).settled(&run).await;
    assert_eq!(run["output_text"], "All of it.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_reader_does_not_delay_the_stop() {
    let long = "a long line of words ".repeat(200_000);
    let script =
        replies(&[json!({ "content": [{ "type": "text", "text": long }], "chunk": 1000 })]);
    // A reader may pause for longer than the test waits for the stop.
    let timeouts = Timeouts { write: 10 * HUNG, ..Timeouts::default() };
    let app = TestApp::start_with(script, Setup { timeouts, ..Setup::default() }).await;
    let session = app.session().await;
    let head = format!("GET {} HTTP/1.1", session.path("/events/stream"));
    let stalled = RawStream::open(app.address, &head, "").await;
    session.ask("Talk").await;
    drop(session);
    timeout(HUNG, app.stop()).await.expect("the service waits for the reader");
    drop(stalled);
}
