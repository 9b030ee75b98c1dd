//! The ends of calls: the log of a run and the results for the model state what happened.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::runs::cancelling::{first, start, started};
use crate::support::{
    Session, TestApp, asks, asks_for_approval_within, calls, calls_as, replies, says,
};

/// The state and the reason of each call of a run.
async fn log(session: &Session<'_>, run: &Value) -> Value {
    let run = session.run(run).await;
    let calls = run["tool_log"].as_array().unwrap().iter();
    json!(calls.map(|call| json!([call["state"], call["reason"]])).collect::<Vec<_>>())
}

/// The results in the third message.
async fn results(session: &Session<'_>) -> Vec<String> {
    let history = session.history().await;
    let results = history[2]["message"]["content"].as_array().unwrap().iter();
    results.map(|result| result["content"].as_str().unwrap().to_owned()).collect()
}

fn content(names: &[&str]) -> Value {
    let block = |name: &&str| json!({ "type": "tool_use", "name": name, "input": {} });
    json!({ "content": names.iter().map(block).collect::<Vec<_>>() })
}

/// Waits until the calls of a run have these states.
async fn reaches(session: &Session<'_>, run: &Value, states: &[&str]) {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let log = session.run(run).await["tool_log"].clone();
        let calls = log.as_array().into_iter().flatten();
        let now: Vec<&str> = calls.map(|call| call["state"].as_str().unwrap()).collect();
        if now == states {
            return;
        }
        assert!(Instant::now() < deadline, "{now:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_without_effects_are_reported_as_started_while_they_run() {
    let app = start(first(&content(&["get_time", "ponder", "ponder", "launch", "ponder"]))).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "go" })).await;
    session.reached(&run, "agent.tool_use").await;
    // The result of the first call is recorded with the next ones.
    reaches(&session, &run, &["started", "started", "started", "planned", "planned"]).await;
    session.cancel(&run).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_cancelled_run_are_reported_as_cancelled_and_not_as_denied() {
    let app = start(first(&content(&["launch", "ponder"]))).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "go" })).await;
    started(&session, "launch").await;
    session.cancel(&run).await;
    session.settled(&run).await;
    let by_client = json!(["interrupted", "cancelled_by_client"]);
    assert_eq!(log(&session, &run).await, json!([by_client, by_client]));
    let expected = [
        "Interrupted: the user cancelled the run while this call was running. It may have run in \
         part or completely. Check the state before you repeat it.",
        "Cancelled: the user cancelled the run before this call was answered.",
    ];
    assert_eq!(results(&session).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_a_new_message_interrupts_are_reported_so() {
    let app = start(first(&content(&["launch", "ponder"]))).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "go" })).await;
    started(&session, "launch").await;
    let next = session.post(json!({ "content": "Instead", "on_busy": "interrupt" })).await;
    session.settled(&next).await;
    let by_message = json!(["interrupted", "interrupted_by_message"]);
    assert_eq!(log(&session, &run).await, json!([by_message, by_message]));
    let results = results(&session).await;
    let start = "Interrupted: a new message of the user interrupted the run while ";
    assert!(results[0].starts_with(start), "{results:?}");
    let start = "Cancelled: a new message of the user interrupted the run before ";
    assert!(results[1].starts_with(start), "{results:?}");
}

fn ring() -> Value {
    calls_as(&[("toolu_ring", "ring", json!({ "line": "one" }))])
}

#[tokio::test(flavor = "multi_thread")]
async fn denials_of_rules_and_of_approvers_are_distinguished() {
    let app = TestApp::start_with(replies(&[ring(), says("Well.")]), asks()).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Ring at night" })).await;
    session.waits_for(&run, &["toolu_ring"]).await;
    session.deny("toolu_ring", "Not at night.").await;
    session.settled(&run).await;
    assert_eq!(log(&session, &run).await, json!([["denied", "denied_by_approver"]]));

    let rules = json!([{ "tool": "ring", "decision": "deny", "reason": "Never ring." }]);
    let session = app.session_with(json!({ "permissions": rules })).await;
    let run = session.ask("Ring").await;
    assert_eq!(log(&session, &run).await, json!([["denied", "denied_by_policy"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_without_an_answer_before_their_deadline_are_reported_so() {
    let script = json!({ "conversations": [
        { "when": "Ring", "replies": [ring(), says("Well.")] },
        { "when": "Open", "replies": [calls("open_door", json!({})), says("Well.")] },
    ], "otherwise": "refuse" });
    let app =
        TestApp::start_with(script, asks_for_approval_within(Duration::from_millis(50))).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Ring" })).await;
    session.settled(&run).await;
    assert_eq!(log(&session, &run).await, json!([["denied", "approval_expired"]]));
    let door = json!({ "name": "open_door", "description": "Opens a door.", "client": true,
                       "input_schema": { "type": "object" } });
    let session = app.session_with(json!({ "tools": [door] })).await;
    let run = session.post(json!({ "content": "Open" })).await;
    session.settled(&run).await;
    assert_eq!(log(&session, &run).await, json!([["failed", "result_expired"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_an_outcome_has_no_reason() {
    let app = start(replies(&[content(&["get_time"]), says("Noon.")])).await;
    let session = app.session().await;
    let run = session.ask("When?").await;
    assert_eq!(log(&session, &run).await, json!([["done", null]]));
}
