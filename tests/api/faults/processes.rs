//! Several processes on one database: some accept requests and stream events, others execute runs.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::support::{
    EventStream, HALF_OF_RENEWAL_INTERVAL, Received, Session, Setup, TestApp, assert_notified,
    durable, hangs_first, says,
};

fn api_only() -> Setup {
    Setup { no_worker: true, ..Setup::default() }
}

fn worker_only() -> Setup {
    Setup { no_api: true, ..Setup::default() }
}

/// Waits until this number of processes listens for notifications.
async fn wait_for_listeners(app: &TestApp, processes: i64) {
    let pool = app.database.pool(1);
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let listening: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
             AND application_name = 'twostep bus' AND query LIKE 'LISTEN%'",
        )
        .fetch_one(&pool)
        .await
        .unwrap();
        if listening == processes {
            return;
        }
        assert!(Instant::now() < deadline, "{listening} processes listen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The text of the previews among these events.
fn previewed(received: &[Received]) -> String {
    let deltas = received.iter().filter(|one| one.name == "event_delta");
    deltas.filter_map(|one| one.data["delta"]["content"]["text"].as_str()).collect()
}

/// A script that streams five characters every 50 ms for the message `slowly`.
fn slowly(text: &str) -> Value {
    json!({ "conversations": [
        { "when": "slowly", "replies": [
            { "content": [{ "type": "text", "text": text }], "chunk": 5, "pace_ms": 50 }] },
        { "replies": [says("You said {{user}}.")] },
    ], "otherwise": "refuse" })
}

const TEXT: &str = "One two three four five six seven eight nine ten eleven twelve thirteen.";

#[tokio::test(flavor = "multi_thread")]
async fn one_process_accepts_a_message_and_another_executes_its_run() {
    let app = TestApp::start_with(slowly(TEXT), api_only()).await;
    let worker = app.second_service(worker_only()).await;
    wait_for_listeners(&app, 2).await;
    let session = app.session().await;
    let received = session.stream("slowly").await.rest().await;
    assert_eq!(previewed(&received), TEXT);
    let events = durable(&received);
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected = [
        "user.message",
        "session.status_running",
        "span.model_request_start",
        "agent.message",
        "span.model_request_end",
        "session.usage",
        "session.status_idle",
    ];
    assert_eq!(kinds, expected);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_worker_messages_wait_and_nothing_is_lost() {
    let app = TestApp::start_with(slowly(TEXT), api_only()).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Hello?" })).await;
    assert_eq!(run["status"], "queued");
    let worker = app.second_service(worker_only()).await;
    assert_eq!(session.settled(&run).await["output_text"], "You said Hello?.");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_reader_of_another_process_gets_the_whole_preview() {
    let app = TestApp::start(slowly(TEXT)).await;
    let other = app.second_service(api_only()).await;
    wait_for_listeners(&app, 2).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "slowly" })).await;
    let mut near = session.open(&session.run_stream(&run), None).await;
    let mut text = String::new();
    while !text.contains("three") {
        text.push_str(&previewed(&[near.until("event_delta").await]));
    }
    let response = other.get(&session.run_stream(&run)).send().await.unwrap();
    let received = EventStream::new(response).rest().await;
    assert_eq!(previewed(&received), TEXT);
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_another_process_gets_previews_with_little_delay() {
    // The reply never ends, so no stored event replaces the previews.
    let mut script = slowly(TEXT);
    script["conversations"][0]["replies"][0]["hang_after"] = (3 + TEXT.len().div_ceil(5)).into();
    let app = TestApp::start(script).await;
    let other = app.second_service(api_only()).await;
    wait_for_listeners(&app, 2).await;
    let session = app.session().await;
    let events = session.path("/events/stream");
    let near = session.open(&events, None).await;
    let far = EventStream::new(other.get(&events).send().await.unwrap());
    let run = session.post(json!({ "content": "slowly" })).await;
    let (near, far) = tokio::join!(arrivals(near), arrivals(far));
    assert_eq!(session.run(&run).await["status"], "running");
    // The delay is measured for each character, because frames have different sizes.
    let mut delays: Vec<Duration> =
        near.iter().zip(&far).map(|(near, far)| far.saturating_duration_since(*near)).collect();
    delays.sort_unstable();
    let (median, last) = (delays[delays.len() / 2], delays[delays.len() - 1]);
    tracing::info!("previews in another process: {median:?} later (median), {last:?} (maximum)");
    assert_eq!(delays.len(), MEASURED);
    // Previews are sent when they are made, and not with the next announcement of the process, which
    // it sends every 5 s.
    assert!(median < Duration::from_millis(2500), "{median:?}");
    session.cancel(&run).await;
    session.settled(&run).await;
    other.stop().await;
}

/// The number of characters whose delay is measured. The end of a text may be sent only with the
/// next part of the reply, which does not come.
const MEASURED: usize = 50;

/// The time at which each of the first characters of the text arrived.
async fn arrivals(mut stream: EventStream) -> Vec<Instant> {
    let mut arrived = Vec::new();
    while arrived.len() < MEASURED {
        let one = stream.next().await.unwrap();
        if let Some(text) = one.data["delta"]["content"]["text"].as_str() {
            arrived.extend(std::iter::repeat_n(Instant::now(), text.len()));
        }
    }
    arrived.truncate(MEASURED);
    arrived
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_another_process_is_cancelled_within_a_second() {
    let app = TestApp::start_with(hangs_first(), api_only()).await;
    let worker = app.second_service(worker_only()).await;
    wait_for_listeners(&app, 2).await;
    let session = app.session().await;
    assert_notified(HALF_OF_RENEWAL_INTERVAL, async |round| {
        let run = session.post(json!({ "content": format!("hang {round}") })).await;
        session.reached(&run, "span.model_request_start").await;
        let asked = Instant::now();
        session.cancel(&run).await;
        assert_eq!(session.settled(&run).await["status"], "cancelled");
        asked.elapsed()
    })
    .await;
    assert_eq!(session.ask("Still there?").await["output_text"], "You said Still there?.");
    worker.stop().await;
}

/// Terminates the connections with which processes send and receive notifications.
async fn terminate_bus_connections(pool: &PgPool) {
    sqlx::query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'twostep bus'",
    )
    .execute(pool)
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_misses_no_event_when_bus_connections_are_terminated() {
    let app = TestApp::start_with(slowly(TEXT), api_only()).await;
    let worker = app.second_service(worker_only()).await;
    wait_for_listeners(&app, 2).await;
    let session = app.session().await;
    let mut stream = session.open(&session.path("/events/stream"), None).await;
    let pool = app.database.pool(1);
    let mut received = Vec::new();
    for round in 0..5 {
        terminate_bus_connections(&pool).await;
        let run = session.post(json!({ "content": format!("round {round}") })).await;
        terminate_bus_connections(&pool).await;
        // Without the poll of the reader, the last event of a round would not arrive.
        loop {
            let one = stream.next().await.unwrap();
            let is_last = one.name == "session.status_idle" && one.data["run_id"] == run["id"];
            received.push(one);
            if is_last {
                break;
            }
        }
    }
    let seen: Vec<i64> = received.iter().filter_map(|one| one.id).collect();
    let stored = session.events().await.len();
    assert_eq!(seen, (1..=i64::try_from(stored).unwrap()).collect::<Vec<_>>());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_in_one_process_ends_with_the_run_in_another() {
    let app = TestApp::start_with(slowly(TEXT), api_only()).await;
    let worker = app.second_service(worker_only()).await;
    wait_for_listeners(&app, 2).await;
    let session = app.session().await;
    let run = waited(&session, "Hello").await;
    assert_eq!(run["output_text"], "You said Hello.");
    worker.stop().await;
}

async fn waited(session: &Session<'_>, text: &str) -> Value {
    let message = session.message(&json!({ "content": text }));
    let response = message.header("prefer", "wait=4").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK, "the wait did not notice the end of the run");
    response.json().await.unwrap()
}
