//! Requests that wait for their run (`Prefer: wait`): their number is limited, and a disconnecting
//! client releases its permit.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::support::{Setup, TestApp, hangs_first, problem};

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_request_holds_its_permit_until_its_client_disconnects() {
    let setup = Setup { max_streams: Some(1), ..Setup::default() };
    let app = TestApp::start_with(hangs_first(), setup).await;
    let (session, other) = (app.session().await, app.session().await);
    let body = r#"{"content":"hang"}"#;
    let (path, length) = (session.path("/messages"), body.len());
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         prefer: wait=120\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    let mut waiting = TcpStream::connect(app.address).await.unwrap();
    waiting.write_all(request.as_bytes()).await.unwrap();
    let deadline = Instant::now() + Duration::from_mins(1);
    while session.events().await.is_empty() {
        assert!(Instant::now() < deadline, "the message was not accepted");
        sleep(Duration::from_millis(10)).await;
    }
    let wait = || other.message(&json!({ "content": "Hello" })).header("prefer", "wait=20").send();
    let refused = wait().await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.headers()["x-should-retry"], "true");
    problem(refused, 503, "too_many_waits").await;
    assert_eq!(other.events().await, Vec::<Value>::new());
    // Streams have separate permits.
    let stream = other.open(&other.path("/events/stream"), None).await;

    drop(waiting);
    let mut answer = wait().await.unwrap();
    while answer.status() == 503 {
        assert!(Instant::now() < deadline, "the permit was not released");
        sleep(Duration::from_millis(10)).await;
        answer = wait().await.unwrap();
    }
    let run: Value = answer.json().await.unwrap();
    assert_eq!(run["output_text"], "You said Hello.");
    drop(stream);
    app.post(&session.path("/cancel")).send().await.unwrap();
    app.has_settled("cancelled", 1).await;
}
