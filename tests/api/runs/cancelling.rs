//! Cancelling: the run stops at once in every state, and the session continues.

use std::sync::Arc;
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};
use twostep::tools::Typed;

use crate::support::{
    Endless, HALF_OF_RENEWAL_INTERVAL, Session, Setup, TestApp, assert_notified, calls, problem,
    replies, says,
};

pub(crate) async fn start(script: Value) -> TestApp {
    let setup = Setup {
        tools: vec![Arc::new(Typed(Endless::<true>)), Arc::new(Typed(Endless::<false>))],
        ..Setup::default()
    };
    TestApp::start_with(script, setup).await
}

/// A script that answers a message `go` with `reply`, and all other messages with text.
pub(crate) fn first(reply: &Value) -> Value {
    json!({ "conversations": [
        { "when": "go", "replies": [reply] },
        { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" })
}

/// The time that each activity of these tests takes at least if it is not cancelled.
const LONG: Duration = Duration::from_mins(1);

fn hangs() -> Value {
    json!({ "content": [{ "type": "text", "text": "Well, let me see." }], "hang_after": 4 })
}

async fn cancel(session: &Session<'_>, run: &Value) -> (StatusCode, Value) {
    let path = session.path(&format!("/runs/{}/cancel", run["id"].as_str().unwrap()));
    let response = session.app.post(&path).send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

/// Cancels an active run, which must settle long before its activity would end, and leave the session
/// usable. Returns the time until the run was settled.
pub(crate) async fn stops(session: &Session<'_>, run: &Value) -> Duration {
    let asked = Instant::now();
    let (status, answer) = cancel(session, run).await;
    assert!(status.is_success() && answer["id"] == run["id"], "{status}");
    let settled = session.settled(run).await;
    let took = asked.elapsed();
    assert!(took < LONG / 2, "{took:?}");
    assert_cancelled(session, &settled).await;
    assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
    took
}

async fn assert_cancelled(session: &Session<'_>, run: &Value) {
    let actual =
        json!([run["status"], run["stop_reason"], run.get("output_text"), run.get("error")]);
    let expected = json!(["cancelled", { "type": "cancelled" }, null, null]);
    assert_eq!(actual, expected);
    let events = session.events().await;
    let of_run = || events.iter().filter(|event| event["run_id"] == run["id"]);
    let last = of_run().next_back().unwrap();
    assert_eq!(last["type"], "session.status_idle");
    assert_eq!(last["stop_reason"], json!({ "type": "cancelled" }));
    let interrupts = of_run().filter(|event| event["type"] == "user.interrupt");
    assert_eq!(interrupts.count(), 1);
    let ids = |kind: &str, key: &str| -> Vec<Value> {
        of_run().filter(|event| event["type"] == kind).map(|event| event[key].clone()).collect()
    };
    assert_eq!(ids("agent.tool_use", "id"), ids("agent.tool_result", "tool_use_id"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_stops_before_or_during_the_reply_of_the_model() {
    let mut late = says("Never.");
    late["delay_ms"] = 60_000.into();
    for reply in [hangs(), late] {
        let app = start(first(&reply)).await;
        assert_notified(HALF_OF_RENEWAL_INTERVAL, async |round| {
            let session = app.session().await;
            let run = session.post(json!({ "content": format!("go {round}") })).await;
            session.reached(&run, "span.model_request_start").await;
            let took = stops(&session, &run).await;
            let mut history = session.history().await;
            // The text of a reply that was cancelled after it began.
            history.retain(|item| item["message"]["interrupted"] != true);
            let roles: Vec<&Value> = history.iter().map(|item| &item["type"]).collect();
            assert_eq!(roles, ["user", "user", "assistant"]);
            took
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_stops_while_it_waits_for_a_retry() {
    let busy = json!({ "status": 529, "headers": { "retry-after": "60" } });
    let app = start(first(&busy)).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "go" })).await;
    session.reached(&run, "session.status_rescheduled").await;
    stops(&session, &run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_stops_while_tools_run_and_their_calls_are_answered() {
    let asks = |names: &[&str]| {
        let block = |name: &&str| json!({ "type": "tool_use", "name": name, "input": {} });
        json!({ "content": names.iter().map(block).collect::<Vec<_>>() })
    };
    let table = [
        (vec!["ponder"], vec!["Cancelled"]),
        (vec!["ponder", "get_time", "ponder"], vec!["Cancelled", "", "Cancelled"]),
        (vec!["launch", "get_time"], vec!["Interrupted", "Cancelled"]),
    ];
    for (names, answers) in table {
        let app = start(first(&asks(&names))).await;
        let session = app.session().await;
        let run = session.post(json!({ "content": "go" })).await;
        session.reached(&run, "agent.tool_use").await;
        if names.contains(&"launch") {
            started(&session, "launch").await;
        }
        stops(&session, &run).await;
        let history = session.history().await;
        let results = history[2]["message"]["content"].as_array().unwrap();
        assert_eq!(results.len(), names.len());
        for (result, start) in results.iter().zip(&answers) {
            let text = result["content"].as_str().unwrap();
            assert!(text.starts_with(start), "{names:?}: {text}");
            assert!(start.is_empty() || result["is_error"] == true);
        }
    }
}

/// Waits until a call of this tool has started.
pub(crate) async fn started(session: &Session<'_>, name: &str) {
    let pool = session.app.database.pool(1);
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let state: Option<String> =
            sqlx::query_scalar("SELECT state FROM tool_calls WHERE name = $1 AND session_id = $2")
                .bind(name)
                .bind(session.uuid())
                .fetch_optional(&pool)
                .await
                .unwrap();
        if state.as_deref() == Some("started") {
            return;
        }
        assert!(Instant::now() < deadline, "the call did not start: {state:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_a_finished_call_is_kept() {
    let asks = json!({ "content": [
        { "type": "tool_use", "name": "write_file", "input": { "path": "a.txt", "content": "hi" } },
        { "type": "tool_use", "name": "ponder", "input": {} } ] });
    let app = start(first(&asks)).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "go" })).await;
    let deadline = Instant::now() + Duration::from_mins(1);
    while !app.folder.path().join("a.txt").exists() {
        assert!(Instant::now() < deadline, "the file was not written");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    session.reached(&run, "agent.tool_result").await;
    stops(&session, &run).await;
    let history = session.history().await;
    let results = &history[2]["message"]["content"];
    assert_ne!(results[0]["is_error"], true, "{results}");
    assert_eq!(results[1]["is_error"], true, "{results}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_message_can_be_withdrawn() {
    let app = start(first(&hangs())).await;
    let session = app.session().await;
    let live = session.post(json!({ "content": "go" })).await;
    session.reached(&live, "session.status_running").await;
    let withdrawn = session.post(json!({ "content": "Not this" })).await;
    let kept = session.post(json!({ "content": "But this" })).await;
    let mut stream = session
        .app
        .get(&session.path(&format!("/runs/{}/stream", withdrawn["id"].as_str().unwrap())));
    stream = stream.timeout(Duration::from_secs(20));
    let stream = tokio::spawn(stream.send());

    let (status, answer) = cancel(&session, &withdrawn).await;
    assert_eq!(status, StatusCode::OK);
    assert_cancelled(&session, &answer).await;
    let stream = crate::support::EventStream::new(stream.await.unwrap().unwrap());
    let names: Vec<String> = stream.rest().await.into_iter().map(|event| event.name).collect();
    assert_eq!(names, ["user.message", "user.interrupt", "session.status_idle"]);
    assert_eq!(session.run(&kept).await["queue_position"], 1);

    cancel(&session, &live).await;
    assert_eq!(session.settled(&kept).await["output_text"], "Still here.");
    let history = session.history().await.iter().map(Value::to_string).collect::<String>();
    assert!(!history.contains("Not this") && history.contains("But this"));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_twice_has_the_effect_of_cancelling_once() {
    let app = start(first(&calls("ponder", json!({})))).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "go" })).await;
    session.reached(&run, "agent.tool_use").await;
    let answers = futures::future::join_all((0..10).map(|_| cancel(&session, &run))).await;
    assert!(answers.iter().all(|(status, _)| status.is_success()));
    let settled = session.settled(&run).await;
    assert_cancelled(&session, &settled).await;
    let events = session.events().await;
    let (status, answer) = cancel(&session, &run).await;
    assert_eq!((status, &answer), (StatusCode::OK, &settled));
    assert_eq!(session.events().await, events, "no event was added");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_run_does_not_change() {
    let app = start(replies(&[says("Done.")])).await;
    let session = app.session().await;
    let run = session.ask("Hello").await;
    let events = session.events().await;
    assert_eq!(cancel(&session, &run).await, (StatusCode::OK, run.clone()));
    let whole = app.post(&session.path("/cancel")).send().await.unwrap();
    assert_eq!(whole.status(), StatusCode::OK);
    let nothing = json!({ "data": [], "has_more": false });
    assert_eq!(whole.json::<Value>().await.unwrap(), nothing);
    assert_eq!(session.events().await, events);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_run_or_session_cannot_be_cancelled() {
    let app = start(replies(&[says("Done.")])).await;
    let (session, other) = (app.session().await, app.session().await);
    let run = session.ask("Hello").await;
    let id = run["id"].as_str().unwrap();
    let unknown = "ses_00000000000070008000000000000000";
    for (path, code) in [
        (session.path("/runs/run_00000000000070008000000000000000/cancel"), "run_not_found"),
        (session.path("/runs/nonsense/cancel"), "run_not_found"),
        (other.path(&format!("/runs/{id}/cancel")), "run_not_found"),
        (format!("/v1/sessions/{unknown}/runs/{id}/cancel"), "session_not_found"),
        (format!("/v1/sessions/{unknown}/cancel"), "session_not_found"),
    ] {
        problem(app.post(&path).send().await.unwrap(), 404, code).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_session_cancels_its_queued_runs() {
    let app = start(first(&hangs())).await;
    let session = app.session().await;
    let live = session.post(json!({ "content": "go" })).await;
    session.reached(&live, "session.status_running").await;
    let mut runs = vec![live];
    for number in 0..5 {
        runs.push(session.post(json!({ "content": format!("number {number}") })).await);
    }
    let response = app.post(&session.path("/cancel")).send().await.unwrap();
    assert!(response.status().is_success());
    let answer: Value = response.json().await.unwrap();
    assert_eq!(answer["data"].as_array().unwrap().len(), 6);
    for run in &runs {
        let settled = session.settled(run).await;
        assert_cancelled(&session, &settled).await;
    }
    assert_eq!(app.upstream().len(), 1, "no queued run was started");
    assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_can_be_cancelled_at_any_moment() {
    let asks = calls("get_time", json!({}));
    let mut speaks = says("It is about noon, I would say.");
    speaks["pace_ms"] = 2.into();
    let script = json!({ "conversations": [
        { "when": "go", "replies": [asks, speaks] },
        { "replies": [says("Still here.")] },
    ] });
    let app = start(script).await;
    for delay_ms in 0..40 {
        let session = app.session().await;
        let run = session.post(json!({ "content": format!("go {delay_ms}") })).await;
        // The delay selects the moment; it does not wait for a condition.
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        cancel(&session, &run).await;
        let settled = session.settled(&run).await;
        let status = settled["status"].as_str().unwrap();
        assert!(matches!(status, "cancelled" | "completed"), "{settled}");
        assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
    }
}
