//! Requests that wait for their run (`Prefer: wait`): their number is limited, and a disconnecting
//! client releases its permit.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::support::{EventStream, Setup, TestApp, hangs_first, problem};

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

#[tokio::test(flavor = "multi_thread")]
async fn only_a_request_with_a_preference_is_told_which_one_was_applied() {
    let app = TestApp::start(json!({})).await;
    let session = app.session().await;
    let body = json!({ "content": "Hi" });
    let applied = async |preference: Option<&str>, path: &str, body: &Value| {
        let mut request = app.post(&session.path(path)).json(body);
        if let Some(preference) = preference {
            request = request.header("prefer", preference);
        }
        let response = request.send().await.unwrap();
        assert!(response.status().is_success(), "{response:?}");
        let value = response.headers().get("preference-applied");
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    let events = json!({ "events": [{ "type": "user.message", "content": "Hi" }] });
    for (path, body) in [("/messages", &body), ("/events", &events), ("/cancel", &json!({}))] {
        assert_eq!(applied(None, path, body).await, None, "{path}");
        assert_eq!(applied(Some("handling=lenient"), path, body).await, None, "{path}");
        let asked = applied(Some("respond-async"), path, body).await;
        assert_eq!(asked.as_deref(), Some("respond-async"), "{path}");
        let asked = applied(Some("wait=60"), path, body).await;
        assert_eq!(asked.as_deref(), Some("wait=60"), "{path}");
    }
}

/// A run whose model does not answer.
async fn hanging(app: &TestApp) -> (crate::support::Session<'_>, Value) {
    let session = app.session().await;
    let run = session.post(json!({ "content": "hang" })).await;
    session.reached(&run, "span.model_request_start").await;
    (session, run)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_waits_for_the_run() {
    let app = TestApp::start(hangs_first()).await;
    let (session, run) = hanging(&app).await;
    let path = session.path(&format!("/runs/{}/cancel", run["id"].as_str().unwrap()));
    let response = app.post(&path).header("prefer", "wait=60").send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["preference-applied"]),
        (200, &"wait=60".parse().unwrap())
    );
    assert_eq!(response.json::<Value>().await.unwrap()["status"], "cancelled");

    let (session, _) = hanging(&app).await;
    let queued = session.post(json!({ "content": "Later" })).await;
    assert_eq!(queued["status"], "queued");
    let request = app.post(&session.path("/cancel")).header("prefer", "wait=60");
    let response = request.send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["preference-applied"]),
        (200, &"wait=60".parse().unwrap())
    );
    let runs: Value = response.json().await.unwrap();
    let statuses: Vec<&Value> =
        runs["data"].as_array().unwrap().iter().map(|run| &run["status"]).collect();
    assert_eq!(statuses, ["cancelled", "cancelled"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancellation_can_be_followed_as_a_stream() {
    let app = TestApp::start(hangs_first()).await;
    let names = async |path: &str| {
        let request = app.post(path).header("accept", "text/event-stream");
        let events = EventStream::new(request.send().await.unwrap()).rest().await;
        let numbered = events.iter().filter(|event| event.id.is_some());
        numbered.map(|event| event.name.clone()).collect::<Vec<_>>()
    };
    let (session, run) = hanging(&app).await;
    let path = session.path(&format!("/runs/{}/cancel", run["id"].as_str().unwrap()));
    let first = names(&path).await;
    assert_eq!(
        (first[0].as_str(), first.last().unwrap().as_str()),
        ("user.interrupt", "session.status_idle")
    );
    // The stream of a second request begins with the run.
    assert_eq!(names(&path).await[0], "user.message");

    let (session, _) = hanging(&app).await;
    let path = session.path("/cancel");
    let first = names(&path).await;
    assert_eq!(
        (first[0].as_str(), first.last().unwrap().as_str()),
        ("user.interrupt", "session.status_idle")
    );
    assert_eq!(names(&path).await, Vec::<String>::new());
}
