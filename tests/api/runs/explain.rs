//! Explanations: what a run waits for, since when, and which request would unblock it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use twostep::tools::{Tool, Typed};

use crate::support::{Endless, Session, Setup, TestApp, calls, problem, replies, says};

fn script() -> Value {
    let call = |name: &str| json!({ "type": "tool_use", "name": name, "input": {} });
    let both = json!({ "content": [call("launch"), call("get_time")] });
    let fails = json!({ "status": 529, "headers": { "retry-after": "50" } });
    json!({ "conversations": [
        { "when": "model", "replies": [{ "content": [], "hang_after": 0 }] },
        { "when": "pure", "replies": [calls("ponder", json!({}))] },
        { "when": "effect", "replies": [both] },
        { "when": "retry", "replies": [fails] },
        { "when": "refuse", "replies": [{ "status": 400 }] },
        { "replies": [says("Fine.")] },
    ]})
}

async fn start(slots: usize) -> TestApp {
    let tools: Vec<Arc<dyn Tool>> =
        vec![Arc::new(Typed(Endless::<true>)), Arc::new(Typed(Endless::<false>))];
    let setup = Setup { tools, slots: Some(slots), ..Setup::default() };
    TestApp::start_with(script(), setup).await
}

/// Posts a text and waits until its run has an event of this type.
async fn post_until(session: &Session<'_>, text: &str, kind: &str) -> Value {
    let run = session.post(json!({ "content": text })).await;
    session.reached(&run, kind).await;
    run
}

/// Returns when the newest event of this type of a run was stored.
async fn event_time(session: &Session<'_>, run: &Value, kind: &str) -> String {
    let events = session.events().await;
    let of_kind = |event: &&Value| event["type"] == kind && event["run_id"] == run["id"];
    time(&events.iter().rfind(of_kind).unwrap()["created_at"])
}

/// Truncates a time to milliseconds: other resources are more precise than events.
fn time(value: &Value) -> String {
    let time: jiff::Timestamp = value.as_str().unwrap().parse().unwrap();
    format!("{time:.3}")
}

fn later(time: &str, seconds: i64) -> String {
    let time: jiff::Timestamp = time.parse().unwrap();
    format!("{:.3}", time + jiff::SignedDuration::from_secs(seconds))
}

/// Returns the explanation with its times truncated to milliseconds, and its sentence separately.
async fn explain(session: &Session<'_>, run: &Value) -> (Value, String) {
    let mut explanation = session.explain(run).await;
    let sentence = explanation["sentence"].as_str().unwrap().to_owned();
    let members = explanation.as_object_mut().unwrap();
    members.remove("sentence");
    for key in ["since", "deadline"] {
        if let Some(member) = members.get_mut(key) {
            *member = time(member).into();
        }
    }
    for call in explanation["calls"].as_array_mut().unwrap() {
        for key in ["since", "deadline"] {
            if call.get(key).is_some() {
                call[key] = time(&call[key]).into();
            }
        }
    }
    (explanation, sentence)
}

fn cancel_of(session: &Session<'_>, run: &Value) -> Value {
    let path = session.path(&format!("/runs/{}/cancel", run["id"].as_str().unwrap()));
    json!({ "method": "POST", "path": path })
}

/// Returns the expected explanation of a run that its own cancellation would unblock.
fn expected(session: &Session<'_>, run: &Value, status: &str, waits_for: &str) -> Value {
    json!({
        "type": "run_explanation", "run_id": run["id"], "status": status, "waits_for": waits_for,
        "calls": [], "unblocked_by": cancel_of(session, run),
    })
}

/// Sets columns of a run, to simulate another state of the service.
async fn set(app: &TestApp, run: &Value, columns: &str) {
    let id = run["id"].as_str().unwrap().trim_start_matches("run_");
    let statement = format!("UPDATE runs SET {columns} WHERE id = '{id}'");
    let done = sqlx::query(AssertSqlSafe(statement)).execute(&app.database.pool(1)).await.unwrap();
    assert_eq!(done.rows_affected(), 1);
}

/// Waits for a call of this tool. Returns when it was started or, if `is_started` is false,
/// planned.
async fn call_since(app: &TestApp, name: &str, is_started: bool) -> String {
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    loop {
        let row: Option<(String, String)> = sqlx::query_as(
            "SELECT c.tool_use_id,
                    to_char(coalesce(c.started_at, m.created_at) AT TIME ZONE 'UTC',
                            'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')
             FROM tool_calls c
             JOIN messages m ON m.session_id = c.session_id AND m.seq = c.message_seq
             WHERE c.name = $1 AND (c.state = 'started') = $2",
        )
        .bind(name)
        .bind(is_started)
        .fetch_optional(&app.database.pool(1))
        .await
        .unwrap();
        if let Some((_, since)) = row {
            return time(&since.into());
        }
        assert!(tokio::time::Instant::now() < deadline, "there is no such call of {name}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn settle(session: &Session<'_>, run: &Value) {
    session.cancel(run).await;
    session.settled(run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_an_open_request_waits_for_the_model() {
    let app = start(4).await;
    let session = app.session().await;
    let run = post_until(&session, "model", "span.model_request_start").await;
    let (explanation, sentence) = explain(&session, &run).await;
    let since = event_time(&session, &run, "span.model_request_start").await;
    let mut whole = expected(&session, &run, "running", "model");
    whole["since"] = since.into();
    assert_eq!(explanation, whole);
    assert!(
        sentence.starts_with("The run waits for the model, which received the request at "),
        "{sentence}"
    );
    settle(&session, &run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_is_reported_with_the_wait() {
    let app = start(4).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "model", "limits": { "seconds": 600 } })).await;
    session.reached(&run, "span.model_request_start").await;
    let (_, sentence) = explain(&session, &run).await;
    assert!(sentence.contains(" Its time limit is at "), "{sentence}");
    settle(&session, &run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_tools_run_names_the_open_calls() {
    let app = start(4).await;
    let session = app.session().await;
    let run = post_until(&session, "effect", "agent.tool_use").await;
    let began = call_since(&app, "launch", true).await;
    let asked = event_time(&session, &run, "agent.tool_use").await;
    let (explanation, sentence) = explain(&session, &run).await;
    let content = &session.history().await[1]["message"]["content"];
    let mut whole = expected(&session, &run, "running", "tool");
    whole["since"] = asked.clone().into();
    whole["calls"] = json!([
        { "tool_use_id": content[0]["id"], "name": "launch", "state": "started",
          "since": began, "deadline": later(&began, 120) },
        { "tool_use_id": content[1]["id"], "name": "get_time", "state": "planned",
          "since": asked },
    ]);
    assert_eq!(explanation, whole);
    assert!(sentence.contains("launch (") && sentence.contains("get_time ("), "{sentence}");
    settle(&session, &run).await;

    let run = post_until(&session, "pure", "agent.tool_use").await;
    let (explanation, _) = explain(&session, &run).await;
    assert_eq!(explanation["calls"][0]["state"], "started");
    assert_eq!(explanation["waits_for"], "tool");
    settle(&session, &run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_runs_name_the_run_that_goes_first() {
    let app = start(4).await;
    let session = app.session().await;
    let live = post_until(&session, "model", "span.model_request_start").await;
    for position in 1..=2 {
        let run = session.post(json!({ "content": "Hello" })).await;
        let (explanation, sentence) = explain(&session, &run).await;
        let mut whole = expected(&session, &run, "queued", "queue");
        whole["since"] = time(&run["created_at"]).into();
        whole["queue_position"] = position.into();
        whole["behind"] = live["id"].clone();
        whole["unblocked_by"] = cancel_of(&session, &live);
        assert_eq!(explanation, whole);
        let first = live["id"].as_str().unwrap();
        let expected_sentence =
            format!("The run is number {position} in its session's queue; {first} goes first.");
        assert_eq!(sentence, expected_sentence);
    }
    // The named request unblocks the runs.
    let path = cancel_of(&session, &live)["path"].as_str().unwrap().to_owned();
    assert!(app.post(&path).send().await.unwrap().status().is_success());
    let path = session.path("/runs?limit=200");
    let runs: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    for run in runs["data"].as_array().unwrap() {
        session.settled(run).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_queued_run_waits_for_a_worker_when_all_are_busy() {
    let app = start(1).await;
    let blocker = app.session().await;
    let blocking = post_until(&blocker, "model", "span.model_request_start").await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Hello" })).await;
    let (explanation, _) = explain(&session, &run).await;
    let mut whole = expected(&session, &run, "queued", "worker");
    whole["since"] = time(&run["created_at"]).into();
    whole["queue_position"] = 1.into();
    whole["queue"] = json!({ "position": 1, "length": 1 });
    assert_eq!(explanation, whole);
    settle(&blocker, &blocking).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_worker_is_lost_waits_for_another_one() {
    let app = start(1).await;
    let blocker = app.session().await;
    let blocking = post_until(&blocker, "model", "span.model_request_start").await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Hello" })).await;
    set(
        &app,
        &run,
        "status = 'running', attempt = 1, started_at = now(), lease_owner = gen_random_uuid(),
         lease_until = '2026-01-01T00:00:00Z'",
    )
    .await;
    let (explanation, sentence) = explain(&session, &run).await;
    let mut whole = expected(&session, &run, "running", "worker");
    whole["since"] = "2026-01-01T00:00:00.000Z".into();
    assert_eq!(explanation, whole);
    let lost = "The worker of the run has been lost since 2026-01-01T00:00:00.000000Z, and no other worker ";
    assert!(sentence.starts_with(lost), "{sentence}");
    settle(&blocker, &blocking).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_request_failed_waits_for_the_retry() {
    let app = start(4).await;
    let session = app.session().await;
    let run = post_until(&session, "retry", "session.status_rescheduled").await;
    let (explanation, sentence) = explain(&session, &run).await;
    let events = session.events().await;
    let retry = events.iter().find(|event| event["type"] == "session.status_rescheduled").unwrap();
    let mut whole = expected(&session, &run, "running", "retry");
    whole["since"] = time(&retry["created_at"]).into();
    whole["deadline"] = time(&retry["retry_at"]).into();
    assert_eq!(explanation, whole);
    assert!(sentence.starts_with("The model failed once; the next try is due at "), "{sentence}");
    settle(&session, &run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_a_requested_cancellation_waits_for_its_worker() {
    let app = start(4).await;
    let session = app.session().await;
    let run = post_until(&session, "effect", "agent.tool_use").await;
    call_since(&app, "launch", true).await;
    // The same as the request, but without a notification: the worker reads it at its next
    // heartbeat.
    set(&app, &run, "cancel_requested_at = now(), lease_until = now() + interval '1 hour'").await;
    let (explanation, sentence) = explain(&session, &run).await;
    let waits = (&explanation["waits_for"], explanation.get("unblocked_by"));
    assert_eq!(waits, (&json!("cancel"), None), "{explanation}");
    assert_eq!(explanation["calls"].as_array().unwrap().len(), 2);
    assert!(sentence.starts_with("Cancellation was requested at "), "{sentence}");
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_the_client_names_the_request_that_it_needs() {
    let app = start(4).await;
    let session = app.session().await;
    let run = post_until(&session, "effect", "agent.tool_use").await;
    call_since(&app, "launch", true).await;
    set(&app, &run, "status = 'requires_action', lease_owner = NULL, lease_until = NULL").await;
    let wait = "UPDATE tool_calls SET state = 'planned', awaits = $1,
                       answer_by = now() + interval '1 hour' WHERE name = 'launch'";
    let pool = app.database.pool(1);
    let post = |path: String| json!({ "method": "POST", "path": path });
    for (awaits, waits_for) in [("approval", "approval"), ("client", "client_tool")] {
        sqlx::query(wait).bind(awaits).execute(&pool).await.unwrap();
        let explanation = session.explain(&run).await;
        let calls = explanation["calls"].as_array().unwrap();
        let call = calls.iter().find(|call| call["name"] == "launch").unwrap();
        let answer = match awaits {
            "approval" => {
                session.path(&format!("/approvals/{}", call["tool_use_id"].as_str().unwrap()))
            }
            _ => session.path("/tool_results"),
        };
        assert_eq!(
            (&explanation["waits_for"], &explanation["unblocked_by"], &call["awaits"]),
            (&json!(waits_for), &post(answer), &json!(awaits))
        );
    }
    let end = "UPDATE tool_calls SET state = 'denied', result = 'no'";
    sqlx::query(end).execute(&pool).await.unwrap();
    assert_eq!(session.explain(&run).await["waits_for"], "limit");
    // The test has set states that the service does not reach.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_run_reports_why_it_settled() {
    let app = start(4).await;
    let session = app.session().await;
    let hanging = post_until(&session, "model", "span.model_request_start").await;
    settle(&session, &hanging).await;
    for (run, stop_reason, start) in [
        (hanging, "cancelled", "The run was cancelled at "),
        (session.ask("Hello").await, "end_turn", "The run completed at "),
        (session.ask("refuse").await, "error", "The run failed at "),
    ] {
        let run = session.run(&run).await;
        let (explanation, sentence) = explain(&session, &run).await;
        let whole = json!({
            "type": "run_explanation", "run_id": run["id"], "status": run["status"],
            "waits_for": null, "since": time(&run["finished_at"]), "calls": [],
            "stop_reason": { "type": stop_reason },
        });
        assert_eq!(explanation, whole);
        assert!(sentence.starts_with(start), "{sentence}");
    }
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_run_or_session_is_not_explained() {
    let app = TestApp::start(replies(&[says("Done.")])).await;
    let (session, other) = (app.session().await, app.session().await);
    let run = session.ask("Hello").await;
    let id = run["id"].as_str().unwrap();
    let unknown = "ses_00000000000070008000000000000000";
    for (path, code) in [
        (session.path("/runs/run_00000000000070008000000000000000/explain"), "run_not_found"),
        (session.path("/runs/nonsense/explain"), "run_not_found"),
        (other.path(&format!("/runs/{id}/explain")), "run_not_found"),
        (format!("/v1/sessions/{unknown}/runs/{id}/explain"), "session_not_found"),
    ] {
        problem(app.get(&path).send().await.unwrap(), 404, code).await;
    }
}
