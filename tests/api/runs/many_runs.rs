//! Many runs at once: a run that waits for the model costs memory, and a run that waits for a slot
//! shows its position.

use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::stream::{StreamExt as _, TryStreamExt as _, iter};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::machine::HUNG;
use crate::support::{
    EventStream, Program, Setup, TestApp, binary, client_with, data_dir, database, hangs_first,
};

/// The runs of the test with the default options.
const RUNS: usize = 200;
/// Streams that are opened at once. On a busy machine, requests that wait for a connection of the
/// database for three seconds are refused.
const OPENED_AT_ONCE: usize = 16;
/// The time for the positions of five runs. Each would take two seconds if the service read the queue
/// only periodically.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_slow_runs_stream_at_once_with_the_default_options() {
    let (database, folder) = (database().await, data_dir());
    let script = folder.path().join("script.json");
    std::fs::write(&script, hangs_first().to_string()).unwrap();
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0", "--script"]);
    command.arg(&script).env("DATABASE_URL", database.url());
    command.arg("--data-dir").arg(folder.path());
    let program = Program::serve(command).await;
    let client = client_with(None);
    let stream = async |_| {
        let session = client.post(format!("{}/v1/sessions", program.url)).send().await?;
        let session: Value = session.json().await?;
        let id = session["id"].as_str().unwrap();
        let post = client.post(format!("{}/v1/sessions/{id}/messages", program.url));
        let post = post.header("accept", "text/event-stream").json(&json!({ "content": "hang" }));
        let mut stream = EventStream::new(post.send().await?);
        // The reply never ends, so each of the runs has to be executed for its first text.
        stream.until("event_delta").await;
        Ok::<_, reqwest::Error>(stream)
    };
    let streams = iter((0..RUNS).map(stream)).buffer_unordered(OPENED_AT_ONCE);
    let streams = timeout(HUNG, streams.try_collect::<Vec<_>>()).await;
    let streams = streams.expect("a run did not start").unwrap();
    let metrics = client.get(format!("{}/metrics", program.url)).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let active = format!("twostep_runs_active {}", streams.len());
    assert!(metrics.lines().any(|line| line == active), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_shows_the_position_of_its_queued_run_at_once_and_each_change_of_it() {
    let app =
        TestApp::start_with(hangs_first(), Setup { slots: Some(2), ..Setup::default() }).await;
    let (one, other) = (app.session().await, app.session().await);
    let hanging = one.post(json!({ "content": "hang" })).await;
    other.post(json!({ "content": "hang" })).await;
    let waiting = join_all((0..5).map(|_| app.session())).await;
    let mut streams = Vec::new();
    let started = Instant::now();
    for (before, session) in waiting.iter().enumerate() {
        let mut stream = session.stream("hang").await;
        let shown = stream.until("queue_position").await;
        assert_eq!(shown.id, None);
        assert_eq!(shown.data["position"], before + 1, "{}", shown.data);
        streams.push(stream);
    }
    assert!(started.elapsed() < SHOWN_WITHIN, "{:?}", started.elapsed());

    // A stream that is opened later shows the position too.
    let runs = waiting[4].path("/runs");
    let runs: Value = app.get(&runs).send().await.unwrap().json().await.unwrap();
    let path = waiting[4].run_stream(&runs["data"][0]);
    assert_eq!(
        waiting[4].open(&path, None).await.until("queue_position").await.data["position"],
        5
    );

    let cancelled = Instant::now();
    one.cancel(&hanging).await;
    streams[0].until("session.status_running").await;
    for (before, stream) in streams.iter_mut().enumerate().skip(1) {
        assert_eq!(stream.until("queue_position").await.data["position"], before);
    }
    assert!(cancelled.elapsed() < SHOWN_WITHIN, "{:?}", cancelled.elapsed());
    for session in waiting.iter().rev().chain([&other]) {
        let cancel = app.post(&session.path("/cancel")).send().await.unwrap();
        assert!(cancel.status().is_success());
    }
    app.has_settled("cancelled", 7).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_queued_while_the_histories_of_others_use_all_memory_for_them() {
    let setup = Setup { history_memory: Some(500_000), ..Setup::default() };
    let app = TestApp::start_with(hangs_first(), setup).await;
    let (large, small) = (app.session().await, app.session().await);
    let text = format!("hang {}", "word ".repeat(60_000));
    let hanging = large.post(json!({ "content": text })).await;
    large.reached(&hanging, "span.model_request_start").await;
    let mut stream = large.open(&large.run_stream(&hanging), None).await;
    stream.until("event_delta").await;

    let mut stream = small.stream("Hello").await;
    assert_eq!(stream.until("queue_position").await.data["position"], 1);
    large.cancel(&hanging).await;
    stream.until("session.status_running").await;
    stream.until("session.status_idle").await;
}
