//! The service behind each proxy that has a configuration file in `docs/proxies/`.

mod base_path;
mod pages;
mod planted_faults;
pub(crate) mod processes;

use std::time::Duration;

use futures::future::join_all;
use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::{EventStream, Received, Session, Setup, TestApp, durable, replies, says};
use processes::{ProxyKind, RunningProxy};

/// The path under which all proxies serve the service.
const BASE: &str = "/agent";

/// A session that is used through a proxy.
struct ProxiedSession<'a> {
    kind: ProxyKind,
    proxy: RunningProxy,
    session: Session<'a>,
}

impl<'a> ProxiedSession<'a> {
    async fn each(app: &'a TestApp) -> Vec<Self> {
        let each = ProxyKind::installed().into_iter().map(async |kind| {
            let proxy = RunningProxy::start(app.address, kind).await;
            let created = app.client.post(proxy.url("/agent/v1/sessions")).send().await.unwrap();
            assert_eq!(created.status(), StatusCode::CREATED, "{kind:?}");
            let location = created.headers()["location"].to_str().unwrap().to_owned();
            let session: Value = created.json().await.unwrap();
            let id = session["id"].as_str().unwrap();
            assert_eq!(location, format!("{BASE}/v1/sessions/{id}"), "{kind:?}");
            Self { kind, proxy, session: app.existing_session(id) }
        });
        join_all(each).await
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.session.app.client.get(self.proxy.url(path))
    }

    fn post(&self, path: &str) -> RequestBuilder {
        self.session.app.client.post(self.proxy.url(path))
    }

    fn message(&self, body: &Value) -> RequestBuilder {
        self.post(&format!("{BASE}{}", self.session.path("/messages"))).json(body)
    }

    /// Sends a message and streams its run, as a client that accepts compression.
    async fn stream(&self, text: &str) -> EventStream {
        let post = self.message(&json!({ "content": text })).header("accept", "text/event-stream");
        EventStream::new(post.header("accept-encoding", "gzip").send().await.unwrap())
    }

    /// The newest run, requested from the service without the proxy.
    async fn run(&self) -> Value {
        let path = self.session.path("/runs");
        let response = self.session.app.get(&path).send().await.unwrap();
        response.json::<Value>().await.unwrap()["data"].as_array().unwrap().last().unwrap().clone()
    }

    async fn stop(self) {
        self.proxy.stop().await;
    }
}

/// A service that sends no keep-alive comments and retries no hanging request: nothing flushes the
/// bytes that a proxy buffers.
fn without_keep_alive() -> Setup {
    let never = Some(Duration::from_hours(1));
    Setup { keep_alive_every: never, model_idle_timeout: never, ..Setup::default() }
}

/// A run that streams a text and then hangs. The text is long enough for compression and too short
/// to fill a buffer.
fn long_and_hanging() -> Value {
    let text = json!({ "type": "text", "text": "Well, well. ".repeat(50) });
    json!({ "conversations": [
        { "when": "hang", "replies": [{ "content": [text], "chunk": 600, "hang_after": 4 }] },
        { "replies": [says("You said {{user}}.")] },
    ], "otherwise": "refuse" })
}

/// The events up to the last character before the model hangs.
async fn until_it_hangs(stream: &mut EventStream) -> Vec<Received> {
    let (mut seen, mut characters) = (Vec::new(), 0);
    while characters < 600 {
        let event = stream.next().await.expect("the stream ended");
        match event.name.as_str() {
            "event_start" => characters = 0,
            "event_delta" => {
                characters += event.data["delta"]["content"]["text"].as_str().unwrap().len();
            }
            _ => {}
        }
        seen.push(event);
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn text_arrives_during_the_run_and_a_cancellation_settles_it() {
    let app = TestApp::start_with(long_and_hanging(), without_keep_alive()).await;
    for proxied in ProxiedSession::each(&app).await {
        let kind = proxied.kind;
        let mut stream = proxied.stream("Please hang").await;
        assert_eq!(stream.headers.get("content-encoding"), None, "{kind:?}");
        let run = proxied.run().await;
        let run_path =
            format!("{BASE}{}/runs/{}", proxied.session.path(""), run["id"].as_str().unwrap());
        assert_eq!(stream.headers["content-location"], run_path, "{kind:?}");
        assert_eq!(stream.headers["location"], format!("{run_path}/stream"), "{kind:?}");
        until_it_hangs(&mut stream).await;
        assert_eq!(proxied.run().await["status"], "running", "{kind:?}");

        let cancelled = proxied.post(&format!("{run_path}/cancel")).send().await.unwrap();
        // 200 if the worker has settled the run already
        let statuses = [StatusCode::OK, StatusCode::ACCEPTED];
        assert!(statuses.contains(&cancelled.status()), "{kind:?}: {cancelled:?}");
        let end = stream.rest().await.pop().unwrap();
        assert_eq!(end.name, "session.status_idle", "{kind:?}");
        assert_eq!(proxied.run().await["status"], "cancelled", "{kind:?}");
        proxied.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disconnected_client_resumes_at_its_last_event() {
    let app = TestApp::start_with(long_and_hanging(), without_keep_alive()).await;
    for proxied in ProxiedSession::each(&app).await {
        let kind = proxied.kind;
        let mut first = proxied.stream("Please hang").await;
        let mut seen = durable(&until_it_hangs(&mut first).await);
        drop(first);

        let run = proxied.run().await;
        let path = proxied.session.path(&format!("/runs/{}", run["id"].as_str().unwrap()));
        let known = proxied.get(&format!("{BASE}{path}")).send().await.unwrap();
        let known: Value = known.json().await.unwrap();
        assert_eq!(known["stream_url"], format!("{BASE}{path}/stream"), "{kind:?}");
        let last = seen.last().unwrap()["seq"].to_string();
        let resumed = proxied.get(known["stream_url"].as_str().unwrap());
        let resumed = resumed.header("accept-encoding", "gzip").header("last-event-id", last);
        let mut resumed = EventStream::new(resumed.send().await.unwrap());
        seen.extend(durable(&until_it_hangs(&mut resumed).await));
        proxied.session.cancel(&run).await;
        seen.extend(durable(&resumed.rest().await));
        assert_eq!(seen, proxied.session.events().await, "{kind:?}");
        proxied.stop().await;
    }
}

/// The number of open streams of the service.
async fn streams_open(app: &TestApp) -> u64 {
    let metrics = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    let line = metrics.lines().find_map(|line| line.strip_prefix("twostep_streams_open "));
    line.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_notices_a_client_that_disconnects() {
    let app = TestApp::start_with(replies(&[]), without_keep_alive()).await;
    for proxied in ProxiedSession::each(&app).await {
        let path = format!("{BASE}{}", proxied.session.path("/events/stream"));
        let mut stream = proxied.get(&path).send().await.unwrap();
        assert_eq!(stream.chunk().await.unwrap().unwrap(), "retry: 2000\n");
        assert_eq!(streams_open(&app).await, 1);
        drop(stream);
        let deadline = Instant::now() + Duration::from_mins(1);
        while streams_open(&app).await > 0 {
            assert!(Instant::now() < deadline, "{:?} keeps the connection open", proxied.kind);
            sleep(Duration::from_millis(20)).await;
        }
        proxied.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_20_megabytes_is_accepted() {
    let app = TestApp::start(replies(&[says("I see.")])).await;
    let message = json!({ "content": "What do you see?" }).to_string();
    let message = message + &" ".repeat(20_000_000);
    for proxied in ProxiedSession::each(&app).await {
        let post = proxied.message(&json!({})).header("prefer", "wait=60").body(message.clone());
        let run = post.send().await.unwrap();
        assert_eq!(run.status(), StatusCode::OK, "{:?}", proxied.kind);
        assert_eq!(run.json::<Value>().await.unwrap()["output_text"], "I see.");
        proxied.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_responses_than_streams_are_compressed_if_the_file_says_so() {
    let app = TestApp::start(replies(&[])).await;
    for proxied in ProxiedSession::each(&app).await {
        let path = format!("{BASE}{}", proxied.session.path(""));
        let response = proxied.get(&path).header("accept-encoding", "gzip").send().await.unwrap();
        let encoding = response.headers().get("content-encoding").map(|it| it.to_str().unwrap());
        let expected = (proxied.kind == ProxyKind::Caddy).then_some("gzip");
        assert_eq!(encoding, expected, "{:?}", proxied.kind);
        // A weak `ETag` could not be used in `If-Match`.
        assert_eq!(response.headers()["etag"], "\"v0\"", "{:?}", proxied.kind);
        proxied.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_outside_the_base_do_not_reach_the_service() {
    let app = TestApp::start(replies(&[])).await;
    for proxied in ProxiedSession::each(&app).await {
        for path in ["/v1/sessions", "/agents/v1/sessions"] {
            let response = proxied.get(path).send().await.unwrap();
            assert_eq!(response.headers().get("x-request-id"), None, "{:?} {path}", proxied.kind);
        }
        let nowhere = proxied.get("/agent/nowhere").send().await.unwrap();
        let nowhere: Value = nowhere.json().await.unwrap();
        assert_eq!(nowhere["instance"], "/agent/nowhere", "{:?}", proxied.kind);
        proxied.stop().await;
    }
}

/// The times are printed and not checked, because the machine may be busy.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_text_arrives_through_each_proxy() {
    let app = TestApp::start(replies(&[says("Here you are.")])).await;
    let session = app.session().await;
    let path = session.path("/messages");
    eprintln!("first text, direct: {:?}", first_text(&app, &app.url(&path), "direct").await);
    for proxied in ProxiedSession::each(&app).await {
        let url = proxied.proxy.url(&format!("{BASE}{}", proxied.session.path("/messages")));
        let way = format!("{:?}", proxied.kind);
        eprintln!("first text, {way}: {:?}", first_text(&app, &url, &way).await);
        proxied.stop().await;
    }
}

/// Linux holds back a small packet for 200 ms if a proxy announces that more data follows.
#[tokio::test(flavor = "multi_thread")]
async fn no_proxy_holds_back_the_first_event() {
    const LIMIT: Duration = Duration::from_millis(150);
    let app = TestApp::start(replies(&[])).await;
    for kind in ProxyKind::installed() {
        let proxy = RunningProxy::start(app.address, kind).await;
        let url = proxy.url("/agent/v1/probe/stream?events=2&every_ms=400");
        let deadline = Instant::now() + Duration::from_mins(1);
        // On a busy machine, some first events are late.
        loop {
            let started = Instant::now();
            let mut stream = app.client.get(&url).send().await.unwrap();
            stream.chunk().await.unwrap().unwrap();
            if started.elapsed() < LIMIT {
                break;
            }
            assert!(Instant::now() < deadline, "{kind:?} delays each first event");
        }
        proxy.stop().await;
    }
}

/// The median time from the request to the first text.
async fn first_text(app: &TestApp, url: &str, way: &str) -> Duration {
    const ROUNDS: usize = 15;
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let post = app.client.post(url).json(&json!({ "content": way }));
        let response = post.header("accept", "text/event-stream").send().await.unwrap();
        let mut stream = EventStream::new(response);
        // On a busy machine, the message may be complete before its first preview is due.
        while let Some(event) = stream.next().await {
            if matches!(event.name.as_str(), "event_delta" | "agent.message") {
                break;
            }
        }
        times.push(started.elapsed());
        assert_eq!(stream.rest().await.last().unwrap().name, "session.status_idle");
    }
    times.sort();
    times[ROUNDS / 2]
}
