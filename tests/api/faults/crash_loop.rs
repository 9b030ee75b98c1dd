//! Runs that no worker gets further with are given up, and their sessions go on.

use std::sync::Arc;

use serde_json::{Value, json};
use twostep::tools::Typed;

use crate::support::{Endless, Setup, TestApp, calls, replies, says};

/// Makes it look as if so many workers had died on all runs.
async fn wear_out(app: &TestApp, workers: i32) {
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
    wear_out(&app, 4).await;
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
async fn a_run_that_workers_die_of_reading_leaves_a_session_that_goes_on() {
    let setup = Setup { tools: vec![Arc::new(Typed(Endless::<true>))], ..Setup::default() };
    let app = TestApp::start_with(replies(&[calls("ponder", json!({}))]), setup).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Think" })).await;
    session.reached(&run, "agent.tool_use").await;
    wear_out(&app, 10).await;
    let id = session.id.clone();
    drop(session);

    let app = app.restarted(replies(&[says("Still here.")])).await;
    let session = app.existing_session(&id);
    let run = session.settled(&run).await;
    assert_eq!((&run["status"], &run["error"]["type"]), (&json!("failed"), &json!("crash_loop")));
    // The call has no answer in the history, and so gets one in the request.
    assert_eq!(session.ask("And then?").await["output_text"], "Still here.");
    assert_eq!(app.simulator.refusals(), Vec::<String>::new());
    app.stop_unchecked().await;
}
