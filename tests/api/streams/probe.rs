//! Probe streams, which show how proxies between a client and the service treat streams.

use std::time::Duration;

use reqwest::Response;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::{EventStream, Setup, TestApp, problem, replies};

async fn probe(app: &TestApp, query: &str, last: Option<&str>) -> Response {
    let mut request = app.get(&format!("/v1/probe/stream?{query}"));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    request.send().await.unwrap()
}

/// Returns the states of the probes, the newest first.
async fn states(app: &TestApp) -> Vec<Value> {
    let page: Value = app.get("/v1/probe/streams").send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().iter().map(|probe| probe["state"].clone()).collect()
}

/// Returns the expected stream of a probe with two events. Its id is taken from `text`.
fn stream_of_two_events(text: &str) -> String {
    let at = text.find("prb_").unwrap();
    let id = &text[at..at + 36];
    let event = |seq| {
        let data = json!({ "type": "probe", "seq": seq, "probe_id": id });
        format!("id: {seq}\nevent: probe\ndata: {data}\n\n")
    };
    format!("retry: 2000\n{}{}", event(1), event(2))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_has_the_headers_of_a_stream_and_counts_its_events() {
    let app = TestApp::start(replies(&[])).await;
    let session = app.session().await;
    let real = session.open(&session.path("/events/stream"), None).await.headers;
    let answer = probe(&app, "events=2&every_ms=0", None).await;
    for name in ["content-type", "cache-control", "x-accel-buffering"] {
        assert_eq!(answer.headers()[name], real[name]);
    }
    assert_eq!(answer.headers()["location"], "/v1/probe/streams");
    let text = answer.text().await.unwrap();
    assert_eq!(text, stream_of_two_events(&text));
    assert_eq!(states(&app).await, ["finished"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconnecting_client_receives_the_remaining_events() {
    let app = TestApp::start(replies(&[])).await;
    let rest = EventStream::new(probe(&app, "events=5&every_ms=0", Some("3")).await).rest().await;
    assert_eq!(rest.iter().map(|event| event.id).collect::<Vec<_>>(), [Some(4), Some(5)]);
    assert_eq!(probe(&app, "events=5", Some("5")).await.status(), 204);
    problem(probe(&app, "events=5", Some("x")).await, 400, "invalid_cursor").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_duration_of_a_probe_is_limited() {
    let app = TestApp::start(replies(&[])).await;
    for query in ["events=0", "events=241", "events=2&every_ms=60001", "events=240&every_ms=252"] {
        problem(probe(&app, query, None).await, 400, "invalid_query").await;
    }
    for query in ["events=2&every_ms=60000", "events=240&every_ms=251"] {
        assert_eq!(probe(&app, query, None).await.status(), 200, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_of_a_probe_shows_whether_its_client_is_connected() {
    let app = TestApp::start(replies(&[])).await;
    let mut stream = EventStream::new(probe(&app, "events=100&every_ms=500", None).await);
    stream.until("probe").await;
    assert_eq!(states(&app).await, ["open"]);
    let metrics = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("twostep_streams_open 1\n"), "{metrics}");
    drop(stream);
    let deadline = Instant::now() + Duration::from_mins(1);
    while states(&app).await != ["left"] {
        assert!(Instant::now() < deadline, "the disconnect was not noticed");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_has_keep_alive_comments_unless_it_is_silent() {
    let keep_alive_every = Some(Duration::from_millis(100));
    let app =
        TestApp::start_with(replies(&[]), Setup { keep_alive_every, ..Setup::default() }).await;
    let text = probe(&app, "events=2&every_ms=1000", None).await.text().await.unwrap();
    let comments = text.matches(":\n").count();
    assert!((2..=10).contains(&comments), "{text}");
    assert_eq!(text.replacen(":\n", "", comments), stream_of_two_events(&text));
    let text = probe(&app, "events=2&every_ms=1000&silent=true", None).await.text().await.unwrap();
    assert_eq!(text, stream_of_two_events(&text));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_stops_aborts_its_probes() {
    let app = TestApp::start(replies(&[])).await;
    let mut stream = EventStream::new(probe(&app, "events=100&every_ms=500", None).await);
    stream.until("probe").await;
    drop(app);
    let rest = async {
        while stream.try_next().await?.is_some() {}
        Ok::<(), sse_stream::Error>(())
    };
    assert!(rest.await.is_err(), "the stream ended as if it were complete");
}
