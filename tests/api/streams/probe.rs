//! Streams of nothing, which show what stands between a client and the service.

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

/// What became of the probes, the newest first.
async fn states(app: &TestApp) -> Vec<Value> {
    let page: Value = app.get("/v1/probe/streams").send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().iter().map(|probe| probe["state"].clone()).collect()
}

/// The stream that is expected of a probe of two events, from the id in it.
fn two(text: &str) -> String {
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
    assert_eq!(text, two(&text));
    assert_eq!(states(&app).await, ["finished"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_gets_the_rest() {
    let app = TestApp::start(replies(&[])).await;
    let rest = EventStream::new(probe(&app, "events=5&every_ms=0", Some("3")).await).rest().await;
    assert_eq!(rest.iter().map(|event| event.id).collect::<Vec<_>>(), [Some(4), Some(5)]);
    assert_eq!(probe(&app, "events=5", Some("5")).await.status(), 204);
    problem(probe(&app, "events=5", Some("x")).await, 400, "invalid_cursor").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_has_an_end() {
    let app = TestApp::start(replies(&[])).await;
    for query in ["events=0", "events=241", "events=2&every_ms=60001", "events=240&every_ms=252"] {
        problem(probe(&app, query, None).await, 400, "invalid_query").await;
    }
    for query in ["events=2&every_ms=60000", "events=240&every_ms=251"] {
        assert_eq!(probe(&app, query, None).await.status(), 200, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_known_whether_somebody_listens() {
    let app = TestApp::start(replies(&[])).await;
    let mut stream = EventStream::new(probe(&app, "events=100&every_ms=500", None).await);
    stream.until("probe").await;
    assert_eq!(states(&app).await, ["open"]);
    let figures = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    assert!(figures.contains("twostep_streams_open 1\n"), "{figures}");
    drop(stream);
    let deadline = Instant::now() + Duration::from_secs(30);
    while states(&app).await != ["left"] {
        assert!(Instant::now() < deadline, "nobody noticed that the client has left");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_is_kept_only_where_it_is_wanted() {
    let keep_alive_every = Some(Duration::from_millis(100));
    let app =
        TestApp::start_with(replies(&[]), Setup { keep_alive_every, ..Setup::default() }).await;
    let text = probe(&app, "events=2&every_ms=1000", None).await.text().await.unwrap();
    let comments = text.matches(":\n").count();
    assert!((2..=10).contains(&comments), "{text}");
    assert_eq!(text.replacen(":\n", "", comments), two(&text));
    let text = probe(&app, "events=2&every_ms=1000&silent=true", None).await.text().await.unwrap();
    assert_eq!(text, two(&text));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_stops_tears_its_probes() {
    let app = TestApp::start(replies(&[])).await;
    let mut stream = EventStream::new(probe(&app, "events=100&every_ms=500", None).await);
    stream.until("probe").await;
    drop(app);
    let torn = async {
        while stream.try_next().await?.is_some() {}
        Ok::<(), sse_stream::Error>(())
    };
    assert!(torn.await.is_err(), "the stream ended as if it were complete");
}
