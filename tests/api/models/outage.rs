//! The circuit breaker for a model server that fails every request: it opens, no run is lost, and
//! it closes after a request that succeeds.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Session, Setup, TestApp, says};

/// A failure status whose headers ask for an immediate retry.
fn soon(status: u16) -> Value {
    json!({ "status": status, "headers": { "retry-after-ms": "5" } })
}

/// The state of the circuit breaker, from `/readyz` and from `/metrics`.
async fn circuit(app: &TestApp) -> (String, String) {
    let ready: Value = app.get("/readyz").send().await.unwrap().json().await.unwrap();
    let text = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    let open = text.lines().find_map(|line| line.strip_prefix("twostep_model_circuit_open "));
    (ready["checks"]["model"]["detail"].as_str().unwrap().to_owned(), open.unwrap().to_owned())
}

/// Waits until the circuit breaker opens.
async fn wait_until_open(app: &TestApp) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while circuit(app).await.0 == "closed" {
        assert!(tokio::time::Instant::now() < deadline, "the circuit breaker did not open");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The number of retried requests to the model.
async fn retries(app: &TestApp) -> u64 {
    let text = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    let sent = text
        .lines()
        .find_map(|line| line.strip_prefix(r#"twostep_model_retries_total{outcome="sent"} "#));
    sent.unwrap().parse().unwrap()
}

/// A script in which the first message uses up all tries of its run, and the second one fails
/// twice more before the model recovers.
fn outage() -> Value {
    let mut last = says("Here I am.");
    last["fail_first"] = json!([soon(529), soon(503)]);
    // Time for other runs to start while this request probes the server.
    last["delay_ms"] = 4000.into();
    json!({ "conversations": [
        { "when": "first", "replies": [soon(529)] },
        { "when": "second", "replies": [last] },
        { "replies": [says("Me too.")] },
    ], "otherwise": "refuse" })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_circuit_opens_after_ten_failures_in_a_row_and_closes_after_one_success() {
    let app = TestApp::start(outage()).await;
    let closed = ("closed".to_owned(), "0".to_owned());
    assert_eq!(circuit(&app).await, closed);
    let first = app.session().await;
    assert_eq!(first.ask("first").await["status"], "failed");
    assert_eq!(circuit(&app).await, closed, "one run alone does not open the circuit");

    let second = app.session().await;
    let run = second.post(json!({ "content": "second" })).await;
    wait_until_open(&app).await;
    // A run that starts now is not refused. It waits.
    let third = app.session().await;
    let waiting = third.post(json!({ "content": "third" })).await;
    third.reached(&waiting, "session.status_rescheduled").await;
    assert_eq!(second.settled(&run).await["output_text"], "Here I am.");
    assert_eq!(third.settled(&waiting).await["output_text"], "Me too.");
    assert_eq!(app.upstream().len(), 12);
    assert_eq!(circuit(&app).await, closed);
    assert_eq!(retries(&app).await, 7 + 2);

    let events = third.events().await;
    let attempts: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "session.status_rescheduled")
        .map(|event| &event["attempt"])
        .collect();
    assert_eq!(attempts, [0], "one report of the wait, and no failure");
}

/// The number of announced retries of a session.
async fn rescheduled(session: &Session<'_>) -> usize {
    let events = session.events().await;
    events.iter().filter(|event| event["type"] == "session.status_rescheduled").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_does_not_delay_runs_with_another_model() {
    let pause = json!({ "status": 529, "headers": { "retry-after": "5" } });
    let mut last = says("Here I am.");
    last["fail_first"] = json!([soon(529), pause]);
    let script = json!({ "conversations": [
        { "when": "first", "replies": [soon(529)] },
        { "when": "second", "replies": [last] },
        { "replies": [says("Me too.")] },
    ], "otherwise": "refuse" });
    let setup = Setup { slots: Some(1), ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let dead = || app.session_with(json!({ "model": "claude-haiku-4-5" }));
    assert_eq!(dead().await.ask("first").await["status"], "failed");
    let second = dead().await;
    let run = second.post(json!({ "content": "second" })).await;
    wait_until_open(&app).await;
    assert_eq!(app.upstream().len(), 10);

    // The only slot is free, and no request of the other model waits.
    let other = app.session_with(json!({ "model": "claude-sonnet-4-6" })).await;
    assert_eq!(other.ask("third").await["output_text"], "Me too.");
    assert_eq!(app.upstream().len(), 11, "the failing model was not tried meanwhile");
    assert_eq!(rescheduled(&other).await, 0);
    assert_ne!(circuit(&app).await.0, "closed");
    assert_eq!(second.settled(&run).await["output_text"], "Here I am.");
    assert_eq!(circuit(&app).await, ("closed".to_owned(), "0".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_an_open_circuit_ends_at_the_limit_of_the_run() {
    let mut script = outage();
    let failures = [529, 503, 529, 503].map(soon);
    script["conversations"][1]["replies"][0]["fail_first"] = json!(failures);
    let app = TestApp::start(script).await;
    let first = app.session().await;
    assert_eq!(first.ask("first").await["status"], "failed");
    let second = app.session().await;
    let run = second.post(json!({ "content": "second" })).await;
    // After two failed probes the circuit stays open for 4 s.
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while app.upstream().len() < 12 {
        assert!(tokio::time::Instant::now() < deadline, "the server was not probed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let third = app.session().await;
    let limited = json!({ "content": "third", "limits": { "seconds": 1 } });
    let waiting = third.ask_with(limited).await;
    assert_eq!(
        (&waiting["output_text"], &waiting["limited_by"]),
        (&json!("Me too."), &json!("seconds"))
    );
    let path = third.path(&format!("/runs/{}/requests", waiting["id"].as_str().unwrap()));
    let page: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    let requests = page["data"].as_array().unwrap().iter();
    let tries: Vec<usize> =
        requests.map(|request| request["attempts"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(tries, [0, 1], "nothing is sent before the limit");
    assert_eq!(second.settled(&run).await["output_text"], "Here I am.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_an_open_circuit_can_be_cancelled() {
    let app = TestApp::start(outage()).await;
    let first = app.session().await;
    assert_eq!(first.ask("first").await["status"], "failed");
    let again = app.session().await;
    let run = again.post(json!({ "content": "first, again" })).await;
    wait_until_open(&app).await;
    let third = app.session().await;
    let waiting = third.post(json!({ "content": "third" })).await;
    third.cancel(&waiting).await;
    assert_eq!(third.settled(&waiting).await["status"], "cancelled");
    again.cancel(&run).await;
    assert_eq!(again.settled(&run).await["status"], "cancelled");
}
