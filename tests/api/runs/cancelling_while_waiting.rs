//! Cancelling runs that wait for their client. No worker holds such a run; the test sets its state
//! in the database.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Instant;

use serde_json::{Value, json};

use crate::runs::cancelling::{first, start, started, stops};
use crate::support::{HALF_OF_SWEEP_INTERVAL, Session, TestApp, assert_notified};

/// A run that waits for its client, with one started call and one planned call. It has reached the
/// maximum number of takeovers.
async fn waiting(app: &TestApp, session: &Session<'_>) -> Value {
    let run = session.post(json!({ "content": format!("go {}", session.id) })).await;
    session.reached(&run, "agent.tool_use").await;
    started(session, "launch").await;
    let done = sqlx::query(
        "UPDATE runs SET status = 'requires_action', attempt = attempt + 1, takeovers = 7,
                lease_owner = NULL, lease_until = NULL
         WHERE id = $1::uuid",
    )
    .bind(run["id"].as_str().unwrap().trim_start_matches("run_"))
    .execute(&app.database.pool(1))
    .await
    .unwrap();
    assert_eq!(done.rows_affected(), 1);
    run
}

async fn app() -> TestApp {
    let write = json!({ "path": "never.txt", "content": "1" });
    let reply = json!({ "content": [
        { "type": "tool_use", "name": "launch", "input": {} },
        { "type": "tool_use", "name": "write_file", "input": write },
    ]});
    start(first(&reply)).await
}

/// Checks that the calls are answered without being executed.
async fn assert_answered(app: &TestApp, session: &Session<'_>) {
    let history = session.history().await;
    let results = history[2]["message"]["content"].as_array().unwrap();
    let texts = results.iter().map(|result| result["content"].as_str().unwrap());
    let starts: Vec<&str> = texts.map(|text| text.split([':', '.']).next().unwrap()).collect();
    assert_eq!(starts, ["Interrupted", "Cancelled"]);
    assert!(!app.folder.path().join("never.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_its_client_is_cancelled_within_a_second() {
    let app = app().await;
    let session = app.session().await;
    let run = waiting(&app, &session).await;
    stops(&session, &run).await;
    assert_answered(&app, &session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_runs_that_wait_for_their_clients_are_claimed_before_the_next_sweep() {
    let app = app().await;
    let mut waits = VecDeque::new();
    for _ in 0..11 {
        let session = app.session().await;
        let run = waiting(&app, &session).await;
        waits.push_back((session, run));
    }
    let waits = Mutex::new(waits);
    // The sweep would claim one of them each time.
    assert_notified(HALF_OF_SWEEP_INTERVAL, async |_| {
        let (session, run) = waits.lock().unwrap().pop_front().unwrap();
        let asked = Instant::now();
        session.cancel(&run).await;
        session.settled(&run).await;
        asked.elapsed()
    })
    .await;
    for (session, run) in waits.into_inner().unwrap() {
        session.cancel(&run).await;
        session.settled(&run).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_its_client_is_cancelled_with_its_session() {
    let app = app().await;
    let session = app.session().await;
    let run = waiting(&app, &session).await;
    let response = app.post(&session.path("/cancel")).send().await.unwrap();
    assert_eq!(response.status(), 202);
    assert_eq!(session.settled(&run).await["status"], "cancelled");
    assert_answered(&app, &session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_interrupts_a_run_that_waits_for_its_client() {
    let app = app().await;
    assert_notified(HALF_OF_SWEEP_INTERVAL, async |_| {
        let session = app.session().await;
        let run = waiting(&app, &session).await;
        let asked = Instant::now();
        let next = session.post(json!({ "content": "Instead", "on_busy": "interrupt" })).await;
        assert_eq!((&next["status"], &next["queue_position"]), (&json!("queued"), &json!(1)));
        assert_eq!(session.settled(&run).await["status"], "cancelled");
        let took = asked.elapsed();
        assert_eq!(session.settled(&next).await["output_text"], "Still here.");
        assert_answered(&app, &session).await;
        took
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_change_is_reported_and_recorded_although_its_run_is_cancelled() {
    let app = app().await;
    let session = app.session().await;
    let run = waiting(&app, &session).await;
    app.write_file("never.txt", "1");
    let pool = app.database.pool(1);
    let made = sqlx::query(
        "UPDATE tool_calls SET state = 'started', started_at = now(), executions = 1,
                change_path = 'never.txt', change_result = 'Written.', hash_after = sha256('1')
         WHERE name = 'write_file'",
    );
    assert_eq!(made.execute(&pool).await.unwrap().rows_affected(), 1);
    session.cancel(&run).await;
    session.settled(&run).await;
    let history = session.history().await;
    assert_eq!(history[2]["message"]["content"][1]["content"], "Written.");
    let seen = "SELECT path FROM seen_files WHERE hash = sha256('1')";
    let seen: Vec<String> = sqlx::query_scalar(seen).fetch_all(&pool).await.unwrap();
    assert_eq!(seen, ["never.txt"]);
}
