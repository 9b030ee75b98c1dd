//! A worker that stops: it finishes requests within the drain time, answers calls that it aborts,
//! and requeues its runs.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use sqlx::PgPool;
use twostep::tools::Typed;

use crate::support::kept_output::MODEL_KEY;
use crate::support::machine::HUNG;
use crate::support::{
    Endless, Session, Setup, TestApp, asked, binary, calls, data_dir, hangs_first, replies, says,
};

fn api_only() -> Setup {
    Setup { no_worker: true, ..Setup::default() }
}

/// A worker with this drain time for requests and calls in progress.
fn worker(drain_ms: u64) -> Setup {
    Setup {
        no_api: true,
        drain_for: Duration::from_millis(drain_ms),
        tools: vec![Arc::new(Typed(Endless::<false>))],
        ..Setup::default()
    }
}

async fn attempts(session: &Session<'_>) -> Vec<Value> {
    let events = session.events().await;
    let running = events.iter().filter(|event| event["type"] == "session.status_running");
    running.map(|event| event["attempt"].clone()).collect()
}

/// Waits until the first call of a run is recorded as started.
async fn call_started(session: &Session<'_>, run: &Value) {
    let deadline = tokio::time::Instant::now() + HUNG;
    while session.run(run).await["tool_log"][0]["state"] != "started" {
        assert!(tokio::time::Instant::now() < deadline, "the call was not started");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_in_progress_is_not_requested_twice() {
    let mut slow = calls("get_time", json!({}));
    slow["pace_ms"] = 200.into();
    let app = TestApp::start_with(replies(&[slow, says("It is late.")]), api_only()).await;
    let first = app.second_service(worker(20_000)).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "What time is it?" })).await;
    session.reached(&run, "span.model_request_start").await;
    first.stop().await;
    // The reply is stored, its call is planned, and the run is released.
    session.reached(&run, "agent.tool_use").await;
    assert_eq!(session.run(&run).await["status"], "running");
    assert_eq!(app.upstream().len(), 1);
    let second = app.second_service(worker(0)).await;
    assert_eq!(session.settled(&run).await["output_text"], "It is late.");
    assert_eq!(attempts(&session).await, [1, 2]);
    assert_eq!(app.upstream().len(), 2);
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_worker_answers_an_effect_call_that_does_not_finish() {
    let script = replies(&[calls("launch", json!({})), says("I do not know.")]);
    let setup = Setup { tools: vec![Arc::new(Typed(Endless::<false>))], ..api_only() };
    let app = TestApp::start_with(script, setup).await;
    let first = app.second_service(worker(200)).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Launch" })).await;
    session.reached(&run, "agent.tool_use").await;
    call_started(&session, &run).await;
    first.stop().await;
    // The result is stored before another worker takes over the run.
    session.reached(&run, "agent.tool_result").await;
    let second = app.second_service(worker(0)).await;
    assert_eq!(session.settled(&run).await["output_text"], "I do not know.");
    let history = session.history().await;
    let result = &history[2]["message"]["content"][0];
    assert_eq!(result["is_error"], true);
    assert!(result["content"].as_str().unwrap().starts_with("Interrupted: "));
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_process_continues_its_runs_at_once() {
    let mut reply = says("Here again.");
    reply["fail_first"] = json!([{ "hang_after": 0 }]);
    let app = TestApp::start_with(replies(&[reply]), api_only()).await;
    let folder = data_dir();
    let spawn = || {
        let mut command = binary(&["worker", "--data-dir", folder.path().to_str().unwrap()]);
        command.args(["--anthropic-base-url", &app.simulator.base_url()]);
        command.env("DATABASE_URL", app.database.url()).env("ANTHROPIC_API_KEY", MODEL_KEY);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut first = spawn();
    let session = app.session().await;
    let run = session.post(json!({ "content": "Hello" })).await;
    let deadline = Instant::now() + Duration::from_mins(1);
    while app.upstream().len() < 1 {
        assert!(Instant::now() < deadline, "no request to the model");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    first.kill().await.unwrap();
    // Another process would have to wait until the lease expires.
    let kept = sqlx::query("UPDATE runs SET lease_until = now() + interval '1 hour'");
    assert_eq!(kept.execute(&app.database.pool(1)).await.unwrap().rows_affected(), 1);
    let mut second = spawn();
    assert_eq!(session.settled(&run).await["output_text"], "Here again.");
    assert_eq!(attempts(&session).await, [1, 2]);
    second.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_claims_more_runs_than_it_has_slots_stops_in_time() {
    let setup = Setup { slots: Some(3), ..Setup::default() };
    let app = TestApp::start_with(hangs_first(), setup).await;
    let other = app.second_service(api_only()).await;
    // Claims are slow, so that a message can arrive during a claim.
    let pool = app.database.pool(1);
    for statement in [
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN PERFORM pg_sleep(1); RETURN NEW; END $$",
        "CREATE TRIGGER slow BEFORE UPDATE ON runs FOR EACH ROW
         WHEN (OLD.status = 'queued' AND NEW.status = 'running') EXECUTE FUNCTION slow()",
    ] {
        sqlx::query(statement).execute(&pool).await.unwrap();
    }
    let sessions = [app.session().await, app.session().await, app.session().await];
    let hang = json!({ "content": "hang" });
    let queued = sessions.each_ref().map(|session| other.message(session, &hang).send());
    join_all(queued).await;
    // A claim is in progress when the message arrives.
    wait_for_slow_claims(&pool, true).await;
    let here = app.session().await;
    here.post(hang.clone()).await;
    asked(&app, 3).await;
    wait_for_slow_claims(&pool, false).await;
    other.stop().await;
    let stops_at = Instant::now();
    // The runs are active, so the final check would fail.
    app.stop_unchecked().await;
    // Runs without a slot would keep the service waiting until it gives them up after 28 s.
    assert!(stops_at.elapsed() < Duration::from_secs(20), "{:?}", stops_at.elapsed());
}

/// Waits until a slow claim is in progress, or until none is.
async fn wait_for_slow_claims(pool: &PgPool, expected: bool) {
    let deadline = Instant::now() + HUNG;
    let query = "SELECT EXISTS (SELECT FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event = 'PgSleep')";
    while sqlx::query_scalar::<_, bool>(query).fetch_one(pool).await.unwrap() != expected {
        assert!(Instant::now() < deadline, "slow claims in progress: {}", !expected);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
