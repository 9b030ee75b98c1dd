//! Runs on which workers die repeatedly fail, and their sessions continue.

use std::sync::Arc;

use serde_json::{Value, json};
use twostep::tools::Typed;

use crate::support::{Endless, Setup, TestApp, calls, replies, says};

/// Sets the number of workers that have died on each run.
async fn set_takeovers(app: &TestApp, workers: i32) {
    sqlx::query("UPDATE runs SET takeovers = $1 WHERE status = 'running'")
        .bind(workers)
        .execute(&app.database.pool(1))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_which_workers_die_fails_with_its_calls_answered() {
    let setup = Setup { tools: vec![Arc::new(Typed(Endless::<true>))], ..Setup::default() };
    let app = TestApp::start_with(replies(&[calls("ponder", json!({}))]), setup).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Think" })).await;
    session.reached(&run, "agent.tool_use").await;
    let waiting = session.post(json!({ "content": "And then?" })).await;
    set_takeovers(&app, 7).await;
    let id = session.id.clone();
    drop(session);

    let app = app.restarted(replies(&[says("Still here.")])).await;
    let session = app.existing_session(&id);
    let run = session.settled(&run).await;
    assert_eq!((&run["status"], &run["error"]["type"]), (&json!("failed"), &json!("crash_loop")));
    let history = session.history().await;
    let answer = &history[2]["message"]["content"][0];
    assert_eq!((&answer["type"], &answer["is_error"]), (&json!("tool_result"), &json!(true)));
    assert_eq!(session.settled(&waiting).await["output_text"], "Still here.");
    let read: Value = app.get(&session.path("")).send().await.unwrap().json().await.unwrap();
    assert_eq!(read["queued"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_continues_after_a_run_whose_history_kills_workers() {
    let setup = Setup { tools: vec![Arc::new(Typed(Endless::<true>))], ..Setup::default() };
    let app = TestApp::start_with(replies(&[calls("ponder", json!({}))]), setup).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Think" })).await;
    session.reached(&run, "agent.tool_use").await;
    set_takeovers(&app, 10).await;
    let id = session.id.clone();
    drop(session);

    let app = app.restarted(replies(&[says("Still here.")])).await;
    let session = app.existing_session(&id);
    let run = session.settled(&run).await;
    assert_eq!((&run["status"], &run["error"]["type"]), (&json!("failed"), &json!("crash_loop")));
    // The call has no result in the history, so the service adds one to the request.
    assert_eq!(session.ask("And then?").await["output_text"], "Still here.");
    assert_eq!(app.simulator.refusals(), Vec::<String>::new());
    app.end_repaired(&[("missing_result", 1)]);
}
