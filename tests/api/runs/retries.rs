//! Retries: the message of a failed or cancelled run starts another run.

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::support::{EventStream, Session, TestApp, calls, hangs_first, problem, replies, says};

/// A run that fails, of a service whose later requests to the model are answered.
async fn failed_run(session: &Session<'_>) -> Value {
    let mut fails = says("Never.");
    fails["fail_first"] = json!([{ "status": 400 }]);
    session.app.play(&replies(&[fails]));
    let failed = session.ask("Where are you?").await;
    assert_eq!(failed["status"], "failed");
    session.app.play(&replies(&[says("Here I am.")]));
    failed
}

fn retry(session: &Session<'_>, run: &Value) -> RequestBuilder {
    session.app.post(&session.path(&format!("/runs/{}/retry", run["id"].as_str().unwrap())))
}

async fn retried(session: &Session<'_>, run: &Value) -> Value {
    let response = retry(session, run).header("prefer", "wait=60").send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_is_retried_with_its_message() {
    let app = TestApp::start(replies(&[])).await;
    let session = app.session().await;
    let failed = failed_run(&session).await;
    let run = retried(&session, &failed).await;
    assert_eq!((&run["status"], &run["output_text"]), (&json!("completed"), &json!("Here I am.")));
    assert_eq!(run["retry_of"], failed["id"]);
    assert!(failed.get("retry_of").is_none());
    let events = session.events().await;
    let messages: Vec<&Value> =
        events.iter().filter(|event| event["type"] == "user.message").collect();
    assert_eq!(messages.len(), 2);
    assert_eq!(messages[0]["content"], messages[1]["content"]);
    assert_eq!(messages[1]["retry_of"], failed["id"]);
    assert_eq!(session.run(&failed).await["status"], "failed");
    // The simulator refuses what the model would refuse.
    assert_eq!(session.ask("Are you there?").await["output_text"], "Here I am.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_continues_after_the_results_of_the_failed_run() {
    let mut fails = says("Never.");
    fails["fail_first"] = json!([{ "status": 400 }]);
    let app = TestApp::start(replies(&[calls("list_files", json!({})), fails])).await;
    let session = app.session().await;
    let failed = session.ask("List the files.").await;
    assert_eq!(failed["status"], "failed");
    app.play(&replies(&[says("Done.")]));
    assert_eq!(retried(&session, &failed).await["output_text"], "Done.");
    let sent = app.upstream().text(app.upstream().len() - 1);
    assert!(sent.contains("tool_result"), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_is_retried_as_a_stream() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "hang" })).await;
    session.reached(&run, "span.model_request_start").await;
    let busy = problem(retry(&session, &run).send().await.unwrap(), 409, "session_busy").await;
    assert_eq!(busy["active_run_id"], run["id"]);
    session.cancel(&run).await;
    session.settled(&run).await;
    let request = retry(&session, &run).header("accept", "text/event-stream");
    let mut stream = EventStream::new(request.send().await.unwrap());
    let first = stream.next().await.unwrap();
    assert_eq!(first.data["type"], "user.message");
    assert_eq!(first.data["retry_of"], run["id"]);
    let newest = session.app.get(&session.path("/runs?order=desc&limit=1")).send().await.unwrap();
    let newest = newest.json::<Value>().await.unwrap()["data"][0].clone();
    session.cancel(&newest).await;
    session.settled(&newest).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_retry_returns_the_same_run() {
    let app = TestApp::start(replies(&[])).await;
    let session = app.session().await;
    let failed = failed_run(&session).await;
    let send = async || {
        let request = retry(&session, &failed).header("idempotency-key", "k");
        request.header("prefer", "wait=60").send().await.unwrap()
    };
    let first = send().await;
    assert!(first.headers().get("idempotency-replayed").is_none());
    let first: Value = first.json().await.unwrap();
    let second = send().await;
    assert_eq!(second.headers()["idempotency-replayed"], "true");
    assert_eq!(second.json::<Value>().await.unwrap()["id"], first["id"]);
    let other = session.message(&json!({ "content": "Hi" })).header("idempotency-key", "k");
    problem(other.send().await.unwrap(), 422, "idempotency_key_reused").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_newest_run_is_retried_and_only_if_it_failed() {
    let app = TestApp::start(replies(&[])).await;
    let session = app.session().await;
    let failed = failed_run(&session).await;
    let stale = retry(&session, &failed).header("if-match", "\"v1\"");
    problem(stale.send().await.unwrap(), 412, "version_mismatch").await;
    let completed = retried(&session, &failed).await;
    for run in [&failed, &completed] {
        problem(retry(&session, run).send().await.unwrap(), 409, "run_not_retryable").await;
    }
    let unknown = json!({ "id": "run_0193a7c2b8f07d3c9e41f2a6b5c8d7e0" });
    problem(retry(&session, &unknown).send().await.unwrap(), 404, "run_not_found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_never_started_is_retried_completely() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let first = session.post(json!({ "content": "hang" })).await;
    session.reached(&first, "span.model_request_start").await;
    let queued = session.post(json!({ "content": "Later" })).await;
    session.cancel(&queued).await;
    session.cancel(&first).await;
    session.settled(&first).await;
    let run = retried(&session, &queued).await;
    assert_eq!(run["status"], "completed");
    assert_eq!(run["retry_of"], queued["id"]);
}
