//! Where a fork leaves its source.

use serde_json::{Value, json};

use super::{fork, last_said, messages, send, stored, told};
use crate::support::{Session, TestApp, asked, asks, calls_as, problem, says, stops_short};

const INTERRUPTED: &str = "Interrupted: the worker stopped while this call was running. \
     It may have run in part or completely. Check the state before you repeat it.";
const CANCELLED: &str = "Cancelled: the run was cancelled before this call was answered.";

/// A service whose first message makes two calls.
async fn start() -> TestApp {
    let two = calls_as(&[
        ("toolu_a", "get_time", json!({})),
        ("toolu_b", "write_file", json!({ "path": "b.txt", "content": "b" })),
    ]);
    let script = json!({ "conversations": [
        { "when": "Work", "replies": [two, says("Done.")] },
        { "replies": [says("You said {{user}}.")] },
    ], "otherwise": "refuse" });
    TestApp::start(script).await
}

/// Its history: a question, two calls, their results, an answer; a question, an answer.
async fn worked(app: &TestApp) -> Session<'_> {
    let session = app.session().await;
    session.ask("Work").await;
    session.ask_with(json!({ "content": "Thanks", "id": "my-thanks" })).await;
    session
}

fn result(id: &str, text: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": true })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_be_forked_at_any_message() {
    let app = start().await;
    let source = worked(&app).await;
    let before = messages(&source).await;
    assert_eq!(before.len(), 6);
    for at in 0..=6 {
        let name = if at == 6 { json!({ "after": 6 }) } else { json!({ "before": at + 1 }) };
        let branch = told(&source, &name).await;
        let from = json!({ "session_id": source.id, "message_seq": at });
        assert_eq!(branch["forked_from"], from);
        let branch = app.existing_session(branch["id"].as_str().unwrap());
        let run = branch.ask(&format!("Next {at}")).await;
        assert_eq!(run["output_text"], format!("You said Next {at}."));
        let now = messages(&branch).await;
        assert_eq!(now[..at], before[..at]);
        // Only behind the calls the fork has something to add.
        let closing = usize::from(at == 2);
        assert_eq!(now.len(), at + closing + 2);
        assert_eq!(stored(&branch).await, if at == 2 { 3 } else { 2 });
        if at == 2 {
            let answers = json!([result("toolu_a", INTERRUPTED), result("toolu_b", INTERRUPTED)]);
            assert_eq!(now[2]["message"]["content"], answers);
            assert_eq!((&now[2]["type"], &now[2]["seq"]), (&json!("user"), &json!(3)));
            assert_eq!(now[2]["run_id"], now[1]["run_id"]);
        }
        assert_eq!(branch.verify().await["is_valid"], true);
        // And again from there.
        let again = fork(&branch, &json!({})).await;
        again.ask("Again").await;
        assert_eq!(messages(&again).await[..now.len()], now);
    }
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_named_by_its_number_or_its_id() {
    let app = start().await;
    let source = worked(&app).await;
    let history = source.history().await;
    let ids: Vec<&Value> = history.iter().map(|item| &item["message"]["id"]).collect();
    assert_eq!(ids[4], "my-thanks");
    for (body, at) in [
        (json!({ "after": ids[0] }), 1),
        (json!({ "before": "my-thanks" }), 4),
        (json!({ "after": "my-thanks" }), 5),
        (json!({ "before": ids[5] }), 5),
        (json!({ "after": 5 }), 5),
        (json!({}), 6),
    ] {
        assert_eq!(told(&source, &body).await["forked_from"]["message_seq"], at, "{body}");
    }
    // A message of the fork may have an id that one of the source has, too.
    let edited = fork(&source, &json!({ "before": "my-thanks" })).await;
    edited.ask_with(json!({ "content": "No thanks", "id": "my-thanks" })).await;
    let last = told(&edited, &json!({ "after": "my-thanks" })).await;
    assert_eq!(last["forked_from"]["message_seq"], 5);

    let other = worked(&app).await;
    let foreign = other.history().await[0]["message"]["id"].clone();
    for (name, value) in [
        ("after", json!(0)),
        ("after", json!(7)),
        ("before", json!(7)),
        ("before", json!(-1)),
        ("after", json!(9_000_000_000_i64)),
        ("before", foreign),
        ("after", json!("")),
        ("after", json!("a\u{0}b")),
        ("after", json!(1.5)),
        ("before", json!([1])),
    ] {
        let wrong = send(&source, &json!({ name: value })).await;
        let wrong = problem(wrong, 422, "validation_failed").await;
        assert_eq!(wrong["errors"][0]["pointer"], format!("/{name}"), "{wrong}");
    }
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_edited_by_a_fork_before_it_and_a_post() {
    let app = start().await;
    let source = worked(&app).await;
    let edited = fork(&source, &json!({ "before": 5 })).await;
    edited.ask("No thanks").await;
    let said = last_said(&app);
    assert_eq!((said[0].as_str(), said.last().unwrap().as_str()), ("Work", "No thanks"));
    assert!(!said.contains(&"Thanks".to_owned()), "{said:?}");
    let first = fork(&source, &json!({ "before": 1 })).await;
    first.ask("Rest").await;
    assert_eq!(last_said(&app), ["Rest"]);
    assert_eq!(messages(&source).await.len(), 6);
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_messages_can_be_forked() {
    let app = start().await;
    let source = app.session().await;
    let empty = fork(&source, &json!({})).await;
    empty.ask("First").await;
    assert_eq!((messages(&empty).await.len(), messages(&source).await.len()), (2, 0));
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_somebody_is_cancelled_in_the_fork_and_waits_on_in_the_source() {
    let ring = calls_as(&[("toolu_ring", "ring", json!({ "line": "one" }))]);
    let script = json!({ "conversations": [
        { "when": "Ring", "replies": [ring, says("Rang.")] },
        { "replies": [says("Well.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, asks()).await;
    let source = app.session().await;
    let run = source.post(json!({ "content": "Ring" })).await;
    source.waits_for(&run, &["toolu_ring"]).await;
    let branch = fork(&source, &json!({})).await;
    assert_eq!(branch.approvals().await, json!([]));
    let answers = json!([result("toolu_ring", CANCELLED)]);
    assert_eq!(messages(&branch).await[2]["message"]["content"], answers);
    // The other one's call is not this one's to decide on.
    let decided = branch.decide("toolu_ring", &json!({ "decision": "allow" })).send().await;
    problem(decided.unwrap(), 404, "approval_not_found").await;
    branch.ask("Never mind").await;
    assert_eq!(source.approvals().await.as_array().unwrap().len(), 1);
    assert_eq!(source.explain(&run).await["calls"][0]["tool_use_id"], "toolu_ring");
    source.allow("toolu_ring", json!({})).await;
    assert_eq!(source.settled(&run).await["output_text"], "Rang.");
    let rung = std::fs::read_to_string(app.folder.path().join(crate::support::BELL)).unwrap();
    assert_eq!(rung, "one\n");
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_came_behind_the_fork_point_is_not_the_forks() {
    let app = start().await;
    let source = app.session().await;
    source.ask("Work").await;
    let branch = fork(&source, &json!({ "after": 2 })).await;
    let texts = |items: &[Value]| items[2]["message"]["content"][0]["content"].clone();
    assert_eq!(texts(&branch.history().await), INTERRUPTED);
    assert_ne!(texts(&source.history().await), INTERRUPTED);
    branch.ask("And now?").await;
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_turn_left_open_that_was_to_go_on_is_left_out_of_what_a_fork_sends() {
    let paused = json!({ "stop_reason": "pause_turn", "content": [
        { "type": "text", "text": "I will search." },
        { "type": "server_tool_use", "name": "web_search", "input": { "query": "x" } } ] });
    let app = TestApp::start(json!({ "conversations": [
        { "when": "search", "replies": [paused, stops_short("And found much")] },
        { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" }))
    .await;
    let source = app.session().await;
    let run = source.post(json!({ "content": "Please search" })).await;
    asked(&app, 2).await;
    let branch = fork(&source, &json!({})).await;
    assert_eq!(branch.read().await["forked_from"]["message_seq"], 2);
    assert_eq!(branch.ask("Are you there?").await["output_text"], "Still here.");
    assert_eq!(last_said(&app), ["Please search", "I will search.", "Are you there?"]);
    for session in [&source, &branch] {
        assert_eq!(session.verify().await["findings"], json!([]));
    }
    source.cancel(&run).await;
    source.settled(&run).await;
    app.end_repaired(&[("open_server_call", 1)]);
}
