//! Messages to a busy session are queued in order, up to a limit.

use futures::future::join_all;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::support::{Session, Setup, TestApp, asks, calls_as, hangs_first, problem, says};

async fn send(request: RequestBuilder) -> Response {
    request.send().await.unwrap()
}

async fn get_json(request: RequestBuilder) -> Value {
    send(request).await.json().await.unwrap()
}

/// Starts a run whose model request hangs, and waits until it runs.
async fn hanging(session: &Session<'_>) -> Value {
    let run = session.post(json!({ "content": "hang" })).await;
    session.reached(&run, "session.status_running").await;
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_to_a_busy_session_are_queued_in_order() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let live = hanging(&session).await;
    let mut waiting = Vec::new();
    for number in 1..=3 {
        let run = session.post(json!({ "content": format!("number {number}") })).await;
        assert_eq!((&run["status"], &run["queue_position"]), (&json!("queued"), &json!(number)));
        waiting.push(run);
    }
    let listed = get_json(app.get(&session.path("/runs?status=queued"))).await;
    let ids = |runs: &[Value]| runs.iter().map(|run| run["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(listed["data"].as_array().unwrap()), ids(&waiting));
    let read = get_json(app.get(&session.path(""))).await;
    assert_eq!(
        (&read["status"], &read["queued"], &read["active_run_id"]),
        (&json!("running"), &json!(3), &live["id"])
    );

    session.cancel(&live).await;
    for (number, run) in (1..).zip(&waiting) {
        let run = session.settled(run).await;
        assert_eq!(run["output_text"], format!("You said number {number}."));
    }
    let mut history = session.history().await;
    history.retain(|item| item["message"]["interrupted"] != true);
    let texts: Vec<&Value> =
        history.iter().map(|item| &item["message"]["content"][0]["text"]).collect();
    let expected = [
        "hang",
        "number 1",
        "You said number 1.",
        "number 2",
        "You said number 2.",
        "number 3",
        "You said number 3.",
    ];
    assert_eq!(texts, expected);
    let read = get_json(app.get(&session.path(""))).await;
    assert_eq!((&read["status"], &read["queued"]), (&json!("idle"), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_sixteen_messages_are_queued() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    hanging(&session).await;
    let posts = (0..40).map(|number| {
        let request = session.message(&json!({ "content": format!("number {number}") }));
        async { send(request).await }
    });
    let mut accepted = 0;
    for answer in join_all(posts).await {
        if answer.status() == StatusCode::ACCEPTED {
            accepted += 1;
        } else {
            assert_eq!(answer.headers()["x-should-retry"], "false");
            problem(answer, 409, "queue_full").await;
        }
    }
    assert_eq!(accepted, 16);
    let read = get_json(app.get(&session.path(""))).await;
    assert_eq!(read["queued"], 16);
    let response = send(app.post(&session.path("/cancel"))).await;
    assert!(response.status().is_success());
    let run = session.ask("One more").await;
    assert_eq!(run["output_text"], "You said One more.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_repeated_message_returns_its_run_even_if_the_queue_of_the_session_is_full() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    hanging(&session).await;
    for number in 1..=15 {
        session.post(json!({ "content": format!("number {number}") })).await;
    }
    let posts = (0..30).map(|_| {
        let request = session.message(&json!({ "content": "the last message", "id": "last" }));
        async { send(request).await.status() }
    });
    assert_eq!(join_all(posts).await, [StatusCode::ACCEPTED; 30]);
    let response = send(app.post(&session.path("/cancel"))).await;
    assert!(response.status().is_success());
    session.ask("Go on").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answered_run_continues_before_runs_that_were_queued_later() {
    let mut slow = says("At last.");
    slow["delay_ms"] = 400.into();
    let ring = calls_as(&[("toolu_1", "ring", json!({ "line": "a" }))]);
    let script = json!({ "conversations": [
        { "when": "Ring", "replies": [ring, says("Rung.")] },
        { "replies": [slow] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, Setup { slots: Some(1), ..asks() }).await;
    let session = app.session().await;
    let answered = session.ask("Ring").await;
    let mut behind = Vec::new();
    for number in 0..10 {
        let session = app.session().await;
        let run = session.post(json!({ "content": format!("number {number}") })).await;
        behind.push((session, run));
    }
    session.allow("toolu_1", json!({})).await;
    assert_eq!(session.settled(&answered).await["output_text"], "Rung.");
    let (last, run) = behind.last().unwrap();
    assert_eq!(last.run(run).await["status"], "queued");
    for (session, run) in behind.iter().rev() {
        session.cancel(run).await;
        session.settled(run).await;
    }
}
