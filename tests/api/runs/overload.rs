//! Admission: above the limit of queued runs messages are refused, and accepted ones are never
//! lost.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use crate::support::{Session, Setup, TestApp, hangs_first, problem};

fn bounded(slots: usize, max_queued: u32) -> Setup {
    Setup { slots: Some(slots), max_queued: Some(max_queued), ..Setup::default() }
}

async fn assert_overloaded(response: Response) {
    let seconds: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(response.headers()["x-should-retry"], "true");
    problem(response, 429, "overloaded").await;
}

async fn hanging(session: &Session<'_>) -> Value {
    let run = session.post(json!({ "content": "hang" })).await;
    session.reached(&run, "span.model_request_start").await;
    run
}

/// Repeats a message until it is accepted: a process notices a shorter queue after a delay.
async fn post_until_accepted(post: impl Fn() -> RequestBuilder) -> Value {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let answer = post().send().await.unwrap();
        if answer.status() == 202 {
            return answer.json().await.unwrap();
        }
        assert_overloaded(answer).await;
        assert!(Instant::now() < deadline, "the message was never accepted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn count_queued(app: &TestApp) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM runs WHERE status = 'queued'")
        .fetch_one(&app.database.pool(1))
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn at_ten_times_the_load_some_messages_are_refused_and_accepted_runs_complete() {
    let slow = json!({ "content": [{ "type": "text", "text": "Done." }], "delay_ms": 100 });
    let script = json!({ "conversations": [{ "replies": [slow] }] });
    let app = TestApp::start_with(script, bounded(4, 20)).await;
    let sessions = join_all((0..240).map(|_| app.session())).await;
    let posts = sessions.iter().enumerate().map(|(number, session)| {
        let body = json!({ "content": format!("number {number}") });
        let post = session.message(&body);
        async move { (session, post.send().await.unwrap()) }
    });
    let (mut accepted, mut refused) = (Vec::new(), 0);
    let (answers, longest) = tokio::join!(join_all(posts), async {
        let mut longest = 0;
        for _ in 0..20 {
            longest = count_queued(&app).await.max(longest);
        }
        longest
    });
    for (session, answer) in answers {
        if answer.status() == 202 {
            accepted.push((session, answer.json::<Value>().await.unwrap()));
        } else {
            refused += 1;
            assert_overloaded(answer).await;
        }
    }
    assert!(longest <= 20, "{longest} runs were queued");
    assert!(refused > 0, "all messages were accepted");
    // About as many as can run and be queued at once: some are counted twice for a moment.
    assert!(accepted.len() >= 12, "only {} messages were accepted", accepted.len());
    for (session, run) in &accepted {
        assert_eq!(session.settled(run).await["status"], "completed");
    }
    let stored: i64 = sqlx::query_scalar("SELECT count(*) FROM runs")
        .fetch_one(&app.database.pool(1))
        .await
        .unwrap();
    assert_eq!(usize::try_from(stored).unwrap(), accepted.len(), "a refused message is not stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_can_start_at_once_is_never_refused() {
    // Enough slots: one run hangs, and the worker itself holds a slot while it searches for runs.
    let app = TestApp::start_with(hangs_first(), bounded(8, 3)).await;
    let (busy, idle) = (app.session().await, app.session().await);
    let live = hanging(&busy).await;
    for number in 1..=3 {
        let body = json!({ "content": format!("number {number}") });
        post_until_accepted(|| busy.message(&body)).await;
    }
    for on_busy in ["queue", "interrupt"] {
        let body = json!({ "content": "One too many", "on_busy": on_busy });
        assert_overloaded(busy.message(&body).send().await.unwrap()).await;
    }
    let body = json!({ "content": "One too many", "on_busy": "reject" });
    problem(busy.message(&body).send().await.unwrap(), 409, "session_busy").await;
    assert_eq!(busy.run(&live).await["status"], "running", "nothing was interrupted");
    for on_busy in ["queue", "reject", "interrupt"] {
        let run = idle.ask_with(json!({ "content": "Idle", "on_busy": on_busy })).await;
        assert_eq!(run["output_text"], "You said Idle.");
    }
    let response = app.post(&busy.path("/cancel")).send().await.unwrap();
    assert!(response.status().is_success());
    busy.settled(&live).await;
    // The queue is empty again.
    assert_eq!(busy.ask("Go on").await["output_text"], "You said Go on.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_message_returns_its_run_even_if_the_queue_is_full() {
    let app = TestApp::start_with(hangs_first(), bounded(1, 2)).await;
    let (blocker, session) = (app.session().await, app.session().await);
    let live = hanging(&blocker).await;
    let bodies = ["one", "two"].map(|id| json!({ "content": id, "id": id }));
    let runs =
        join_all(bodies.iter().map(|body| post_until_accepted(|| session.message(body)))).await;
    // No slot is free, and the queue is full.
    assert_overloaded(session.message(&json!({ "content": "three" })).send().await.unwrap()).await;
    let posts = (0..100).map(|number| session.post(bodies[number % 2].clone()));
    for (number, again) in join_all(posts).await.into_iter().enumerate() {
        assert_eq!(again["id"], runs[number % 2]["id"]);
    }
    blocker.cancel(&live).await;
    for (run, id) in runs.iter().zip(["one", "two"]) {
        assert_eq!(session.settled(run).await["output_text"], format!("You said {id}."));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_queued_runs_covers_all_processes() {
    let app = TestApp::start_with(hangs_first(), bounded(8, 4)).await;
    let other = app.second_service(bounded(8, 4)).await;
    let session = app.session().await;
    let live = hanging(&session).await;
    for number in 1..=4 {
        let body = json!({ "content": format!("number {number}") });
        post_until_accepted(|| session.message(&body)).await;
    }
    // A process that has not counted yet accepts one message, and counts then.
    let body = json!({ "content": "number 5" });
    assert_eq!(other.message(&session, &body).send().await.unwrap().status(), 202);
    assert_overloaded(other.message(&session, &body).send().await.unwrap()).await;
    assert_eq!(count_queued(&app).await, 5);
    let response = app.post(&session.path("/cancel")).send().await.unwrap();
    assert!(response.status().is_success());
    session.settled(&live).await;

    // The other process soon notices that the queue is empty again.
    let live = hanging(&session).await;
    let run = post_until_accepted(|| other.message(&session, &body)).await;
    assert_eq!(run["status"], "queued");
    session.cancel(&live).await;
    session.settled(&run).await;
    other.stop().await;
}
