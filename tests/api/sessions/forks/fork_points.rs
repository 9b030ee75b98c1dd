//! Fork points: the message after which a fork continues on its own.

use serde_json::{Value, json};

use super::{create_fork, fork, last_request_texts, messages, send, stored};
use crate::support::{Session, TestApp, asked, asks, calls_as, problem, says, stops_short};

const CANCELLED: &str = "Cancelled: the conversation was forked before this call was answered.";

/// Starts a service whose model makes two calls for the message `Work`.
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

/// A session with six messages: a question, two calls, their results, an answer; a question, an
/// answer.
async fn session_with_calls(app: &TestApp) -> Session<'_> {
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
    let source = session_with_calls(&app).await;
    let before = messages(&source).await;
    assert_eq!(before.len(), 6);
    for at in 0..=6 {
        let point = if at == 6 { json!({ "after": 6 }) } else { json!({ "before": at + 1 }) };
        let branch = create_fork(&source, &point).await;
        let forked_from = json!({ "session_id": source.id, "message_seq": at });
        assert_eq!(branch["forked_from"], forked_from);
        let branch = app.existing_session(branch["id"].as_str().unwrap());
        let run = branch.ask(&format!("Next {at}")).await;
        assert_eq!(run["output_text"], format!("You said Next {at}."));
        let now = messages(&branch).await;
        assert_eq!(now[..at], before[..at]);
        // Directly after the calls, the fork adds results.
        let added = usize::from(at == 2);
        assert_eq!(now.len(), at + added + 2);
        assert_eq!(stored(&branch).await, if at == 2 { 3 } else { 2 });
        if at == 2 {
            assert_eq!(now[2]["message"]["content"], before[2]["message"]["content"]);
            assert_eq!((&now[2]["type"], &now[2]["seq"]), (&json!("user"), &json!(3)));
            assert_eq!(now[2]["run_id"], now[1]["run_id"]);
        }
        assert_eq!(branch.verify().await["is_valid"], true);
        // The fork can be forked too.
        let again = fork(&branch, &json!({})).await;
        again.ask("Again").await;
        assert_eq!(messages(&again).await[..now.len()], now);
    }
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_point_is_named_by_the_number_or_the_id_of_a_message() {
    let app = start().await;
    let source = session_with_calls(&app).await;
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
        assert_eq!(create_fork(&source, &body).await["forked_from"]["message_seq"], at, "{body}");
    }
    // A message of the fork may have the same id as a message of the source.
    let edited = fork(&source, &json!({ "before": "my-thanks" })).await;
    edited.ask_with(json!({ "content": "No thanks", "id": "my-thanks" })).await;
    let last = create_fork(&edited, &json!({ "after": "my-thanks" })).await;
    assert_eq!(last["forked_from"]["message_seq"], 5);

    let other = session_with_calls(&app).await;
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
        let refused = send(&source, &json!({ name: value })).await;
        let refused = problem(refused, 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], format!("/{name}"), "{refused}");
    }
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_edited_by_forking_before_it_and_posting_another() {
    let app = start().await;
    let source = session_with_calls(&app).await;
    let edited = fork(&source, &json!({ "before": 5 })).await;
    edited.ask("No thanks").await;
    let texts = last_request_texts(&app);
    assert_eq!((texts[0].as_str(), texts.last().unwrap().as_str()), ("Work", "No thanks"));
    assert!(!texts.contains(&"Thanks".to_owned()), "{texts:?}");
    let first = fork(&source, &json!({ "before": 1 })).await;
    first.ask("Rest").await;
    assert_eq!(last_request_texts(&app), ["Rest"]);
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
async fn a_call_that_waits_for_approval_is_cancelled_in_the_fork_and_still_waits_in_the_source() {
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
    // The fork cannot decide on a call of its source.
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

/// The results in the events of a fork that belong to none of its runs.
async fn reported_results(branch: &Session<'_>) -> Vec<Value> {
    let events = branch.events().await;
    let of_session = events.into_iter().filter(|event| event["run_id"].is_null());
    let results = of_session.filter(|event| event["type"] == "agent.tool_result").map(|event| {
        let keys = ["tool_use_id", "content", "is_error"];
        json!(keys.map(|key| event[key].clone()))
    });
    results.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_directly_after_calls_begins_with_the_results_of_its_source() {
    let app = start().await;
    let source = app.session().await;
    source.ask("Work").await;
    let branch = fork(&source, &json!({ "after": 2 })).await;
    let results = source.history().await[2]["message"]["content"].clone();
    assert_eq!(branch.history().await[2]["message"]["content"], results);
    let text = |at: usize| json!([{ "type": "text", "text": results[at]["content"] }]);
    let expected = [json!(["toolu_a", text(0), false]), json!(["toolu_b", text(1), false])];
    assert_eq!(reported_results(&branch).await, expected);
    branch.ask("And now?").await;
    // The fork of a fork has the same results, although its own session has no ledger of them.
    let inner = fork(&branch, &json!({ "after": 2 })).await;
    assert_eq!(inner.history().await[2]["message"]["content"], results);
    assert_eq!(reported_results(&inner).await, expected);
    for session in [&branch, &inner] {
        assert_eq!(session.verify().await["findings"], json!([]));
    }
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_waiting_run_has_the_results_of_its_completed_calls() {
    let both = calls_as(&[
        ("toolu_time", "get_time", json!({})),
        ("toolu_ring", "ring", json!({ "line": "one" })),
        ("toolu_late", "get_time", json!({})),
    ]);
    let script = json!({ "conversations": [
        { "when": "Ring", "replies": [both, says("Rang.")] },
        { "replies": [says("Well.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, asks()).await;
    let source = app.session().await;
    let run = source.post(json!({ "content": "Ring" })).await;
    source.waits_for(&run, &["toolu_ring"]).await;
    let events = source.events().await;
    let known = events.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
    assert_eq!(known["tool_use_id"], "toolu_time");

    let branch = fork(&source, &json!({})).await;
    let answers = messages(&branch).await[2]["message"]["content"].clone();
    assert_eq!(answers[0]["content"], known["content"][0]["text"], "{answers}");
    assert_eq!(answers[0].get("is_error"), None, "{answers}");
    assert_eq!(answers[1], result("toolu_ring", CANCELLED));
    assert_eq!(answers[2], result("toolu_late", CANCELLED));
    let cancelled = json!([{ "type": "text", "text": CANCELLED }]);
    let expected = [
        json!(["toolu_time", known["content"], false]),
        json!(["toolu_ring", cancelled, true]),
        json!(["toolu_late", cancelled, true]),
    ];
    assert_eq!(reported_results(&branch).await, expected);
    branch.ask("Never mind").await;
    let sent = last_request_texts(&app);
    assert!(sent.contains(&known["content"][0]["text"].as_str().unwrap().to_owned()), "{sent:?}");
    assert_eq!(branch.verify().await["findings"], json!([]));
    source.allow("toolu_ring", json!({})).await;
    assert_eq!(source.settled(&run).await["output_text"], "Rang.");
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn verification_compares_the_results_with_which_a_fork_begins_with_their_events() {
    let app = start().await;
    let source = app.session().await;
    source.ask("Work").await;
    let branch = fork(&source, &json!({ "after": 2 })).await;
    for (corruption, detail) in [
        (
            r#"UPDATE events SET body = replace(body::text, '"is_error":false', '"is_error":true')::json
               WHERE session_id = $1 AND body ->> 'tool_use_id' = 'toolu_b'"#,
            "event 3 of call toolu_b differs from the result with which the fork begins",
        ),
        (
            "UPDATE events SET body = replace(body::text, 'toolu_b', 'toolu_c')::json
               WHERE session_id = $1 AND body ->> 'tool_use_id' = 'toolu_b'",
            "event 3 of call toolu_c reports a result with which the fork does not begin",
        ),
    ] {
        let pool = app.database.pool(1);
        sqlx::query(corruption).bind(branch.uuid()).execute(&pool).await.unwrap();
        let findings = branch.verify().await["findings"].clone();
        assert_eq!(findings[0]["detail"], detail, "{findings}");
    }
    // The test has corrupted the fork.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_does_not_send_the_open_server_call_of_a_paused_turn() {
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
    assert_eq!(last_request_texts(&app), ["Please search", "I will search.", "Are you there?"]);
    for session in [&source, &branch] {
        assert_eq!(session.verify().await["findings"], json!([]));
    }
    source.cancel(&run).await;
    source.settled(&run).await;
    app.end_repaired(&[("open_server_call", 1)]);
}
