//! Slow clients: their connections are closed at a time limit, and other clients are not delayed.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use futures::stream;
use reqwest::{Body, Client, StatusCode, Version};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use twostep::http::Timeouts;

use crate::support::machine::HUNG;
use crate::support::{EventStream, RawStream, Setup, TestApp, fill_with_events, replies, says};

/// The time limits of the service in these tests.
const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(1),
    body: Duration::from_millis(1500),
    idle: Duration::from_secs(2),
    write: Duration::from_secs(1),
};
/// A reserve for a busy machine and for closing the connection.
const RESERVE: Duration = Duration::from_secs(8);

fn setup() -> Setup {
    Setup { timeouts: TIMEOUTS, ..Setup::default() }
}

/// The behaviour of a slow client.
#[derive(Debug, Clone, Copy)]
struct SlowClient {
    /// The bytes that are sent once.
    first: &'static str,
    /// The bytes that are sent repeatedly.
    drip: Option<&'static [u8]>,
    /// The time limit that applies.
    limit: Duration,
    /// The status of the response, if any.
    status: Option<&'static str>,
}

const INCOMPLETE_BODY: &str = "POST /v1/sessions HTTP/1.1\r\nhost: x\r\n\
    content-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"title\":";

const SLOW_CLIENTS: [SlowClient; 7] = [
    SlowClient { first: "", drip: None, limit: TIMEOUTS.head, status: None },
    SlowClient { first: "PRI * HTTP/2.0\r\n", drip: None, limit: TIMEOUTS.head, status: None },
    SlowClient {
        first: "GET /healthz HTTP/1.1\r\nhost: x\r\n",
        drip: None,
        limit: TIMEOUTS.head,
        status: None,
    },
    SlowClient { first: "GET /", drip: Some(b"a"), limit: TIMEOUTS.head, status: None },
    SlowClient { first: INCOMPLETE_BODY, drip: None, limit: TIMEOUTS.body, status: Some("408") },
    SlowClient {
        first: INCOMPLETE_BODY,
        drip: Some(b" "),
        limit: TIMEOUTS.body,
        status: Some("408"),
    },
    SlowClient {
        first: "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n",
        drip: None,
        limit: TIMEOUTS.idle,
        status: Some("200"),
    },
];

/// Runs a slow client until the service closes the connection. Returns the response and the
/// duration.
async fn run_slow_client(
    address: SocketAddr,
    client: SlowClient,
) -> (SlowClient, String, Duration) {
    let started = Instant::now();
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(client.first.as_bytes()).await.unwrap();
    let (mut reader, mut writer) = socket.split();
    let drips = async {
        let mut every = interval(Duration::from_millis(100));
        while let Some(drip) = client.drip {
            every.tick().await;
            // The service may have closed.
            let _ = writer.write_all(drip).await;
        }
        std::future::pending::<()>().await;
    };
    let mut answer = Vec::new();
    tokio::select! {
        // A service that closes before it has read everything may reset the connection.
        read = timeout(client.limit + RESERVE, reader.read_to_end(&mut answer)) => {
            let _ = read.unwrap_or_else(|_| panic!("{client:?} is still connected"));
        }
        () = drips => {}
    }
    (client, String::from_utf8(answer).unwrap(), started.elapsed())
}

/// Sends requests until `until` is cancelled. Returns the sorted response times.
async fn response_times(url: String, until: CancellationToken) -> Vec<Duration> {
    let client = Client::builder().no_proxy().build().unwrap();
    let mut times = Vec::new();
    let mut every = interval(Duration::from_millis(10));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while until.run_until_cancelled(every.tick()).await.is_some() {
        let started = Instant::now();
        let response = client.get(&url).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        times.push(started.elapsed());
    }
    times.sort();
    times
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_are_disconnected_in_time_and_others_are_served_meanwhile() {
    const OF_EACH: usize = 30;
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup()).await;
    let url = app.url(&app.session().await.path(""));
    let until = CancellationToken::new();
    let other = tokio::spawn(response_times(url, until.clone()));
    let clients = SLOW_CLIENTS.iter().cycle().take(SLOW_CLIENTS.len() * OF_EACH);
    let slow = join_all(clients.map(|client| tokio::spawn(run_slow_client(app.address, *client))));
    for finished in slow.await {
        let (client, answer, time) = finished.unwrap();
        let status = answer.split(' ').nth(1);
        assert_eq!(status, client.status, "{client:?}: {answer}");
        assert!(time >= client.limit, "{client:?} was closed after {time:?}");
    }
    until.cancel();
    let times = other.await.unwrap();
    let p99 = times[times.len() * 99 / 100];
    eprintln!("{} requests next to slow clients, p99 {p99:?}", times.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_body_is_answered_with_a_problem() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup()).await;
    let (_, answer, _) = run_slow_client(app.address, SLOW_CLIENTS[4]).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let head = head.to_ascii_lowercase();
    assert!(head.contains("connection: close") && head.contains("application/problem+json"));
    let mut problem: Value = serde_json::from_str(body).unwrap();
    problem.as_object_mut().unwrap().remove("request_id").unwrap();
    let expected = json!({
        "type": "about:blank",
        "title": "Request Timeout",
        "status": 408,
        "detail": "the body was not received within 1.5 s",
        "instance": "/v1/sessions",
        "code": "request_timeout",
    });
    assert_eq!(problem, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_in_use_stays_open() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup()).await;
    let mut socket = TcpStream::connect(app.address).await.unwrap();
    let mut answer = [0; 4096];
    for _ in 0..4 {
        socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let read = socket.read(&mut answer).await.unwrap();
        assert!(answer[..read].ends_with(b"{\"status\":\"ok\"}"));
        // Longer than the limit of a head, and shorter than that of an idle connection.
        tokio::time::sleep(TIMEOUTS.idle * 3 / 4).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_stream_is_not_a_slow_client() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup()).await;
    let session = app.session().await;
    let mut stream = session.open(&session.path("/events/stream"), None).await;
    tokio::time::sleep(TIMEOUTS.idle + TIMEOUTS.write).await;
    session.ask("Are you there?").await;
    stream.until("session.status_idle").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_disconnected() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup()).await;
    let session = app.session().await;
    fill_with_events(&app.database, &session.id, 10_000).await;
    let stalled = TcpSocket::new_v4().unwrap();
    stalled.set_recv_buffer_size(4096).unwrap();
    let mut stalled = stalled.connect(app.address).await.unwrap();
    let head = format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", session.path("/events/stream"));
    stalled.write_all(head.as_bytes()).await.unwrap();
    let closed = timeout(TIMEOUTS.write + RESERVE, stalled.ready(Interest::ERROR)).await;
    assert!(closed.expect("the connection was not closed").unwrap().is_error());
    let mut read = Vec::new();
    assert!(stalled.read_to_end(&mut read).await.is_err());
    assert_eq!(session.ask("Are you there?").await["output_text"], "Yes.");
    // The inserted events are not valid, so the invariants are not checked.
    app.stop_unchecked().await;
}

fn http2() -> Client {
    Client::builder().no_proxy().http2_prior_knowledge().build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_can_use_http2() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup()).await;
    let session = app.session().await;
    let client = http2();
    let post = client.post(app.url(&session.path("/messages")));
    let post = post.header("accept", "text/event-stream").json(&json!({ "content": "Well?" }));
    let response = post.send().await.unwrap();
    assert_eq!(response.version(), Version::HTTP_2);
    let events = EventStream::new(response).rest().await;
    assert_eq!(events.last().unwrap().name, "session.status_idle");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_body_over_http2_does_not_affect_other_streams() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup()).await;
    let client = http2();
    let half = futures::StreamExt::chain(
        stream::iter([Ok::<_, std::io::Error>("{\"title\":")]),
        stream::pending(),
    );
    let post = client.post(app.url("/v1/sessions")).header("content-type", "application/json");
    let slow = tokio::spawn(post.body(Body::wrap_stream(half)).send());
    let fast = client.get(app.url("/healthz")).send().await.unwrap();
    assert_eq!((fast.version(), fast.status()), (Version::HTTP_2, StatusCode::OK));
    let slow = timeout(TIMEOUTS.body + RESERVE, slow).await.expect("there was no response");
    let slow = slow.unwrap().unwrap();
    assert_eq!((slow.version(), slow.status()), (Version::HTTP_2, StatusCode::REQUEST_TIMEOUT));
    let fast = client.get(app.url("/healthz")).send().await.unwrap();
    assert_eq!(fast.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http2_stream_that_is_not_read_is_reset_without_affecting_others() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup()).await;
    let session = app.session().await;
    fill_with_events(&app.database, &session.id, 10_000).await;
    let client = http2();
    let stream = app.url(&session.path("/events/stream"));
    let mut unread = client.get(&stream).send().await.unwrap();
    let mut read = EventStream::new(client.get(&stream).send().await.unwrap());
    let started = Instant::now();
    while started.elapsed() < TIMEOUTS.write * 2 {
        read.next().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let rest = async {
        while unread.chunk().await?.is_some() {}
        Ok::<_, reqwest::Error>(())
    };
    assert!(timeout(RESERVE, rest).await.expect("the stream was not closed").is_err());
    while read.next().await.unwrap().id != Some(10_000) {}
    // The inserted events are not valid, so the invariants are not checked.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_stops_does_not_wait_for_slow_clients() {
    let long = 10 * HUNG;
    let timeouts = Timeouts { head: long, body: long, idle: long, write: long };
    let setup = Setup { timeouts, ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup).await;
    let session = app.session().await;
    fill_with_events(&app.database, &session.id, 10_000).await;
    let head = format!("GET {} HTTP/1.1", session.path("/events/stream"));
    let unread = RawStream::open(app.address, &head, "").await;
    drop(session);
    let mut slow = Vec::new();
    for client in SLOW_CLIENTS {
        let mut socket = TcpStream::connect(app.address).await.unwrap();
        socket.write_all(client.first.as_bytes()).await.unwrap();
        slow.push(socket);
    }
    // The last one has a response, so the service has accepted all connections.
    slow.last_mut().unwrap().readable().await.unwrap();
    // The inserted events are not valid, so the invariants are not checked.
    let stopped = timeout(HUNG, app.stop_unchecked()).await;
    stopped.expect("the service waits for its clients");
    drop((slow, unread));
}
