//! Runs that another worker takes over. To simulate a lost worker, the tests let its lease expire.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::{Session, Setup, TestApp, asked, calls, replies, says};

/// A reply whose first try hangs without an answer. The second try succeeds.
pub(crate) fn hangs_once(reply: Value) -> Value {
    let mut reply = reply;
    reply["fail_first"] = json!([{ "hang_after": 0 }]);
    reply
}

/// Assigns the run to a worker that does not exist, with an expired lease, as after this number of deaths
/// of workers. The takeover that follows is one more; the worker of the test, which is alive, may take one
/// back.
pub(crate) async fn lose_worker(app: &TestApp, run: &Value, takeovers: i32) {
    let id = run["id"].as_str().unwrap().trim_start_matches("run_");
    let done = sqlx::query(
        "UPDATE runs SET attempt = attempt + 1, takeovers = $2, status = 'running',
                started_at = coalesce(started_at, now()),
                lease_owner = gen_random_uuid(), lease_until = now() - interval '1 second'
         WHERE id = $1::uuid",
    )
    .bind(id)
    .bind(takeovers)
    .execute(&app.database.pool(1))
    .await
    .unwrap();
    assert_eq!(done.rows_affected(), 1);
}

/// Waits until the results of the first round are stored. The request with them is sent before.
async fn has_results(session: &Session<'_>) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while session.history().await.len() < 3 {
        assert!(Instant::now() < deadline, "the results were not stored");
        sleep(Duration::from_millis(5)).await;
    }
}

async fn attempts(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let running = events.iter().filter(|event| event["type"] == "session.status_running");
    running.map(|event| event["attempt"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_continues_at_the_same_step_under_the_next_attempt() {
    let script = replies(&[
        calls("write_file", json!({ "path": "once.txt", "content": "1" })),
        hangs_once(says("Written once.")),
    ]);
    let app = TestApp::start(script).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Write it once" })).await;
    asked(&app, 2).await;
    has_results(&session).await;
    lose_worker(&app, &run, 1).await;
    let run = session.settled(&run).await;
    assert_eq!(run["output_text"], "Written once.");
    assert_eq!(attempts(&session).await, [1, 3]);
    // One request for the call, one that hung, one that was answered; the tool ran once.
    assert_eq!(app.upstream().len(), 3);
    assert_eq!(session.history().await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_workers_die_repeatedly_fails() {
    let app = TestApp::start(replies(&[hangs_once(says("Here again."))])).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Hello" })).await;
    asked(&app, 1).await;
    lose_worker(&app, &run, 7).await;
    let run = session.settled(&run).await;
    assert_eq!((&run["status"], &run["error"]["type"]), (&json!("failed"), &json!("crash_loop")));
    assert_eq!(session.ask("Are you well?").await["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_kills_every_worker_is_failed_without_being_resumed() {
    let script = json!({ "conversations": [
        { "when": "once", "replies": [
            calls("write_file", json!({ "path": "once.txt", "content": "1" })),
            hangs_once(says("Never sent.")) ] },
        { "replies": [says("Fine.")] },
    ]});
    let app = TestApp::start(script).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Write it once" })).await;
    asked(&app, 2).await;
    has_results(&session).await;
    lose_worker(&app, &run, 9).await;
    let run = session.settled(&run).await;
    assert_eq!((&run["status"], &run["error"]["type"]), (&json!("failed"), &json!("crash_loop")));
    assert_eq!(session.ask("And now?").await["output_text"], "Fine.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_be_read_fails_and_its_session_continues() {
    let app = TestApp::start(replies(&[hangs_once(says("Here again."))])).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Hello" })).await;
    asked(&app, 1).await;
    sqlx::query("UPDATE runs SET options = '{\"tool_choice\":{\"type\":\"later\"}}'")
        .execute(&app.database.pool(1))
        .await
        .unwrap();
    lose_worker(&app, &run, 7).await;
    let run = session.settled(&run).await;
    assert_eq!((&run["status"], &run["error"]["type"]), (&json!("failed"), &json!("crash_loop")));
    assert_eq!(session.ask("Are you well?").await["status"], "completed");
    assert_eq!(app.broken_invariants().await, []);
    // The final check would report the unreadable row.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_never_started_fails_and_leaves_the_queue() {
    let script = json!({ "conversations": [
        { "when": "block", "replies": [{ "content": [], "hang_after": 0 }] },
        { "replies": [says("Fine.")] },
    ]});
    let setup = Setup { slots: Some(1), ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let blocker = app.session().await;
    let blocking = blocker.post(json!({ "content": "Block the only slot" })).await;
    asked(&app, 1).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Never started" })).await;
    assert_eq!(run["status"], "queued");
    lose_worker(&app, &run, 7).await;
    let cancel = blocker.path(&format!("/runs/{}/cancel", blocking["id"].as_str().unwrap()));
    assert!(app.post(&cancel).send().await.unwrap().status().is_success());
    let run = session.settled(&run).await;
    assert_eq!((&run["status"], &run["error"]["type"]), (&json!("failed"), &json!("crash_loop")));
    assert_eq!(session.ask("And now?").await["output_text"], "Fine.");
}
