//! Forks and runs: active runs of the source, and runs of the fork.

use std::time::Duration;

use serde_json::json;

use super::{fork, messages, stored};
use crate::faults::takeover::{hangs_once, lose_worker};
use crate::support::{TestApp, asked, hangs_first, replies, says};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_be_forked_while_a_run_is_active() {
    let app = TestApp::start(hangs_first()).await;
    let source = app.session().await;
    source.ask("one").await;
    let run = source.post(json!({ "content": "hang" })).await;
    source.reached(&run, "span.model_request_start").await;
    let queued = source.post(json!({ "content": "later" })).await;
    // A queued message is not in the history yet.
    let branch = fork(&source, &json!({})).await;
    assert_eq!(branch.read().await["forked_from"]["message_seq"], 3);
    assert_eq!(branch.read().await["status"], "idle");
    assert_eq!(branch.ask("two").await["output_text"], "You said two.");
    assert_eq!(source.run(&run).await["status"], "running");
    source.cancel(&run).await;
    assert_eq!(source.settled(&run).await["status"], "cancelled");
    source.settled(&queued).await;
    let mut history = source.history().await;
    history.retain(|item| item["message"]["interrupted"] != true);
    assert_eq!((messages(&branch).await.len(), history.len()), (5, 5));
    assert_eq!(stored(&branch).await, 2);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_fork_can_be_cancelled_and_interrupted() {
    let app = TestApp::start(hangs_first()).await;
    let source = app.session().await;
    source.ask("one").await;
    let branch = fork(&source, &json!({})).await;
    let run = branch.post(json!({ "content": "hang" })).await;
    branch.reached(&run, "span.model_request_start").await;
    branch.cancel(&run).await;
    assert_eq!(branch.settled(&run).await["status"], "cancelled");
    let run = branch.post(json!({ "content": "hang again" })).await;
    branch.reached(&run, "span.model_request_start").await;
    let next = branch.ask_with(json!({ "content": "two", "on_busy": "interrupt" })).await;
    assert_eq!(next["output_text"], "You said two.");
    assert_eq!(branch.settled(&run).await["status"], "cancelled");
    assert_eq!(source.read().await["status"], "idle");
    assert_eq!(messages(&source).await.len(), 2);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_run_of_a_fork_survives_the_loss_of_its_worker() {
    let app = TestApp::start(json!({ "conversations": [
        { "when": "two", "replies": [hangs_once(says("Here again."))] },
        { "replies": [says("Yes.")] },
    ], "otherwise": "refuse" }))
    .await;
    let source = app.session().await;
    source.ask("one").await;
    let branch = fork(&source, &json!({ "after": 1 })).await;
    let run = branch.post(json!({ "content": "two" })).await;
    asked(&app, 2).await;
    lose_worker(&app, &run, 1).await;
    assert_eq!(branch.settled(&run).await["output_text"], "Here again.");
    let upstream = app.upstream();
    assert_eq!(upstream.text(1), upstream.text(2));
    assert_eq!(messages(&branch).await.len(), 3);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_event_of_a_fork_names_its_source() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let source = app.session().await;
    source.ask("one").await;
    let branch = fork(&source, &json!({ "before": 2 })).await;
    let mut stream = branch.open(&branch.path("/events/stream"), None).await;
    let first = stream.until("session.forked").await;
    assert_eq!((first.id, &first.data["seq"]), (Some(1), &json!(1)));
    let forked_from = json!({ "session_id": source.id, "message_seq": 1 });
    assert_eq!(first.data["forked_from"], forked_from);
    assert_eq!(first.data.get("run_id"), None);
    drop(stream);
    let run = tokio::time::timeout(Duration::from_secs(30), branch.ask("two")).await.unwrap();
    assert_eq!(run["status"], "completed");
    app.end_refused(&[]);
}
