//! A model that fails everybody: it is left alone, no run is lost, and it is found well again.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{TestApp, says};

/// A status that asks to be tried again at once.
fn soon(status: u16) -> Value {
    json!({ "status": status, "headers": { "retry-after-ms": "5" } })
}

/// The state of the circuit as `/readyz` tells it, and as `/metrics` does.
async fn circuit(app: &TestApp) -> (String, String) {
    let ready: Value = app.get("/readyz").send().await.unwrap().json().await.unwrap();
    let text = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    let open = text.lines().find_map(|line| line.strip_prefix("twostep_model_circuit_open "));
    (ready["checks"]["model"]["detail"].as_str().unwrap().to_owned(), open.unwrap().to_owned())
}

/// Waits until the model is left alone.
async fn opened(app: &TestApp) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while circuit(app).await.0 == "closed" {
        assert!(tokio::time::Instant::now() < deadline, "it never opened");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// How many requests to the model were sent again.
async fn retries(app: &TestApp) -> u64 {
    let text = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    let sent = text
        .lines()
        .find_map(|line| line.strip_prefix(r#"twostep_model_retries_total{outcome="sent"} "#));
    sent.unwrap().parse().unwrap()
}

/// A script in which one message uses up the patience of a run, and the next one finds the model
/// ill a few times more.
fn outage() -> Value {
    let mut last = says("Here I am.");
    last["fail_first"] = json!([soon(529), soon(503)]);
    // Time for others to come while this one finds out.
    last["delay_ms"] = 4000.into();
    json!({ "conversations": [
        { "when": "first", "replies": [soon(529)] },
        { "when": "second", "replies": [last] },
        { "replies": [says("Me too.")] },
    ], "otherwise": "refuse" })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_ten_times_in_a_row_is_left_alone_until_one_request_finds_it_well() {
    let app = TestApp::start(outage()).await;
    let closed = ("closed".to_owned(), "0".to_owned());
    assert_eq!(circuit(&app).await, closed);
    let first = app.session().await;
    assert_eq!(first.ask("first").await["status"], "failed");
    assert_eq!(circuit(&app).await, closed, "one run alone does not open it");

    let second = app.session().await;
    let run = second.post(json!({ "content": "second" })).await;
    opened(&app).await;
    // Who comes now is not refused, and waits.
    let third = app.session().await;
    let waiting = third.post(json!({ "content": "third" })).await;
    third.reached(&waiting, "session.status_rescheduled").await;
    assert_eq!(second.settled(&run).await["output_text"], "Here I am.");
    assert_eq!(third.settled(&waiting).await["output_text"], "Me too.");
    assert_eq!(app.upstream().len(), 12);
    assert_eq!(circuit(&app).await, closed);
    assert_eq!(retries(&app).await, 7 + 2);

    let events = third.events().await;
    let again: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "session.status_rescheduled")
        .map(|event| &event["attempt"])
        .collect();
    assert_eq!(again, [0], "it was told once, and failed never");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_a_model_that_fails_everybody_can_be_cancelled() {
    let app = TestApp::start(outage()).await;
    let first = app.session().await;
    assert_eq!(first.ask("first").await["status"], "failed");
    let again = app.session().await;
    let run = again.post(json!({ "content": "first, again" })).await;
    opened(&app).await;
    let third = app.session().await;
    let waiting = third.post(json!({ "content": "third" })).await;
    third.cancel(&waiting).await;
    assert_eq!(third.settled(&waiting).await["status"], "cancelled");
    again.cancel(&run).await;
    assert_eq!(again.settled(&run).await["status"], "cancelled");
}
