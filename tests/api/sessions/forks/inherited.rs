//! State that a fork inherits from its source in addition to messages, and its verification.

use serde_json::{Value, json};

use super::{create_fork, fork, last_request_texts, messages};
use crate::support::media::image_at;
use crate::support::{Session, TestApp, calls, calls_as, problem, replies, says};

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_inherits_the_current_mode_and_budget_and_todo_list() {
    let todos = json!([{ "id": "a", "content": "Do a", "status": "pending" }]);
    let script = replies(&[calls("TodoWrite", json!({ "todos": todos })), says("Noted.")]);
    let app = TestApp::start(script).await;
    let source = app.session_with(json!({ "budget": { "tokens": 100_000 } })).await;
    source.ask("Note it").await;
    let patch = json!({ "permission_mode": "plan" });
    let url = app.url(&source.path(""));
    assert_eq!(app.client.patch(url).json(&patch).send().await.unwrap().status(), 200);
    let branch = create_fork(&source, &json!({ "before": 1 })).await;
    assert_eq!(branch["permission_mode"], "plan");
    assert_eq!(branch["budget"], json!({ "tokens": 100_000 }));
    assert_eq!(branch["usage"]["input_tokens"], 0);
    let branch = app.existing_session(branch["id"].as_str().unwrap());
    let list = |session: &Session<'_>| app.get(&session.path("/todos")).send();
    let list: Value = list(&branch).await.unwrap().json().await.unwrap();
    assert_eq!(list, json!({ "todos": todos }));
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn remembered_rules_apply_in_the_fork() {
    let ring = |id: &str| calls_as(&[(id, "ring", json!({ "line": "one" }))]);
    let script = json!({ "conversations": [
        { "when": "first", "replies": [ring("toolu_1"), says("Rang.")] },
        { "replies": [ring("toolu_2"), says("Rang again.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, crate::support::asks()).await;
    let source = app.session().await;
    let run = source.post(json!({ "content": "first" })).await;
    source.waits_for(&run, &["toolu_1"]).await;
    source.allow("toolu_1", json!({ "remember": "session" })).await;
    source.settled(&run).await;
    let branch = fork(&source, &json!({})).await;
    assert_eq!(branch.read().await["remembered"], source.read().await["remembered"]);
    assert_eq!(branch.ask("Ring").await["output_text"], "Rang again.");
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_span_the_segments_of_a_history() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let source = app.session().await;
    source.ask("one").await;
    source.ask("two").await;
    let branch = fork(&source, &json!({})).await;
    branch.ask("three").await;
    let inner = fork(&branch, &json!({})).await;
    inner.ask("four").await;
    for (query, expected) in [
        ("", vec![1, 2, 3]),
        ("&after=3", vec![4, 5, 6]),
        ("&after=7", vec![8]),
        ("&before=6", vec![3, 4, 5]),
        ("&before=2", vec![1]),
        ("&before=2147483647", vec![6, 7, 8]),
        ("&order=desc", vec![8, 7, 6]),
        ("&order=desc&after=6", vec![5, 4, 3]),
        ("&order=desc&before=2", vec![5, 4, 3]),
    ] {
        let path = inner.path(&format!("/messages?limit=3{query}"));
        let page: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
        let found: Vec<&Value> =
            page["data"].as_array().unwrap().iter().map(|item| &item["seq"]).collect();
        assert_eq!(json!(found), json!(expected), "{query}");
    }
    app.end_refused(&[]);
}

fn images(count: usize) -> Value {
    let mut content = vec![json!({ "type": "text", "text": "Look." })];
    content.extend(vec![image_at("https://a.b"); count]);
    json!({ "content": content })
}

#[tokio::test(flavor = "multi_thread")]
async fn images_of_the_source_count_in_the_fork() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let source = app.session().await;
    source.ask("one").await;
    source.ask_with(images(90)).await;
    let branch = fork(&source, &json!({})).await;
    // At most 100 images are allowed.
    let too_many = branch.message(&images(11)).send().await.unwrap();
    problem(too_many, 422, "validation_failed").await;
    branch.ask_with(images(10)).await;
    fork(&source, &json!({ "before": 3 })).await.ask_with(images(11)).await;
    app.end_refused(&[]);
}

fn door() -> Value {
    json!({ "name": "open_door", "description": "Opens a door.", "client": true,
            "input_schema": { "type": "object" } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_does_not_send_content_that_the_model_refused_in_its_source() {
    let reply = json!({ "content": [{ "type": "thinking", "thinking": "Hm." }, says("I see.")["content"][0]] });
    let app = TestApp::start(replies(&[reply])).await;
    let source = app.session().await;
    source.ask("one").await;
    source.ask("two").await;
    // Changed tools invalidate all earlier thinking.
    source.ask_with(json!({ "content": "three", "tools": [door()] })).await;
    let refused = app.simulator.refusals();
    assert_eq!(refused.len(), 1);
    let kinds = |message: &Value| -> Vec<Value> {
        let blocks = message["content"].as_array().unwrap().iter();
        blocks.map(|block| block["type"].clone()).collect()
    };
    for at in [2, 4] {
        let branch = fork(&source, &json!({ "after": at })).await;
        assert_eq!(kinds(&messages(&branch).await[1]["message"]), ["thinking", "text"]);
        branch.ask(&format!("after {at}")).await;
        let upstream = app.upstream();
        let sent = upstream.body(upstream.len() - 1)["messages"].clone();
        assert_eq!(kinds(&sent[1]), ["text"]);
        assert_eq!(sent.as_array().unwrap().len(), at + 1);
        // New thinking in the fork is sent.
        branch.ask(&format!("again after {at}")).await;
        let upstream = app.upstream();
        let sent = upstream.body(upstream.len() - 1)["messages"].clone();
        assert_eq!(kinds(&sent[at + 1]), ["thinking", "text"]);
    }
    let refused: Vec<&str> = refused.iter().map(String::as_str).collect();
    app.end_refused(&refused);
}

/// A text of about 1,000 tokens, as the simulator counts.
fn long(word: &str) -> String {
    format!("{word}. {}", "x".repeat(4000))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_sends_a_summary_only_if_it_covers_messages_before_the_fork_point() {
    let summary = json!({ "content": [{ "type": "compaction", "content": "They spoke." }] });
    let app = TestApp::start(json!({ "conversations": [{ "replies": [says("Yes.")] }],
                                     "compaction": [summary, summary] }))
    .await;
    let new = json!({ "tools": [], "context": { "compact_at": 3000 } });
    let source = app.session_with(new).await;
    for word in ["One", "Two", "Three", "Four"] {
        source.ask(&if word == "Four" { word.to_owned() } else { long(word) }).await;
    }
    let events = source.events().await;
    let compacted = events.iter().find(|event| event["type"] == "agent.context_compacted");
    assert_eq!(compacted.unwrap()["up_to"], 4);

    let after_summary = fork(&source, &json!({ "after": 6 })).await;
    after_summary.ask("Five").await;
    let upstream = app.upstream();
    let (four, five) = (upstream.len() - 2, upstream.len() - 1);
    // The summary, the third question and its answer.
    let shared = upstream.body(four)["messages"].as_array().unwrap()[..3].to_vec();
    assert_eq!(shared[0]["content"][0]["type"], "compaction");
    assert_eq!(upstream.body(five)["messages"].as_array().unwrap()[..2], shared[..2]);
    assert_eq!(messages(&after_summary).await.len(), 8, "the history is complete");

    // The summary covers messages after this fork point, so it is not sent.
    let before_summary = fork(&source, &json!({ "after": 2 })).await;
    before_summary.ask("Six").await;
    assert_eq!(last_request_texts(&app), [&long("One"), "Yes.", "Six"]);

    // The stored requests of a fork can be reconstructed.
    for session in [&after_summary, &before_summary] {
        let runs: Value =
            app.get(&session.path("/runs")).send().await.unwrap().json().await.unwrap();
        let run = runs["data"][0]["id"].as_str().unwrap().to_owned();
        let path = session.path(&format!("/runs/{run}/requests/1"));
        let request: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
        let upstream = app.upstream();
        let bodies: Vec<Value> = (0..upstream.len()).map(|index| upstream.body(index)).collect();
        assert!(bodies.contains(&request["body"]), "{request}");
    }
    app.end_refused(&[]);
}

/// Corrupts a fork that has answered two calls, in several ways.
#[tokio::test(flavor = "multi_thread")]
async fn a_corrupted_fork_is_detected_by_the_verification_and_by_the_invariants() {
    let two = calls_as(&[("toolu_a", "get_time", json!({})), ("toolu_b", "get_time", json!({}))]);
    for (statement, findings, invariant) in [
        (
            "DELETE FROM messages WHERE session_id = $1",
            &["calls_answered", "counters_agree"][..],
            "every call is answered once in the next message",
        ),
        (
            "UPDATE inherited SET after_seq = 1 WHERE session_id = $1",
            &["messages_numbered", "roles_alternate", "counters_agree"],
            "messages are numbered from 1 without a gap",
        ),
        (
            "UPDATE messages SET role = 'assistant', stop_reason = 'end_turn' WHERE session_id = $1",
            &["roles_alternate"],
            "a message belongs to a run of its session",
        ),
        (
            "UPDATE messages SET run_id = (SELECT id FROM runs WHERE message_id = 'other')
             WHERE session_id = $1",
            &["runs_in_order"],
            "a message belongs to a run of its session",
        ),
    ] {
        let app = TestApp::start(replies(&[two.clone(), says("Done.")])).await;
        let source = app.session().await;
        source.ask("Work").await;
        app.session().await.ask_with(json!({ "content": "Work, too", "id": "other" })).await;
        let branch = fork(&source, &json!({ "after": 2 })).await;
        assert_eq!(branch.verify().await["is_valid"], true);
        assert_eq!(app.broken_invariants().await, []);
        let mut conn = app.database.pool(1).acquire().await.unwrap();
        let disable = "ALTER TABLE messages DISABLE TRIGGER USER";
        sqlx::query(disable).execute(&mut *conn).await.unwrap();
        sqlx::query(statement).bind(branch.uuid()).execute(&mut *conn).await.unwrap();
        let verification = branch.verify().await;
        let names: Vec<&str> = verification["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|finding| finding["invariant"].as_str().unwrap())
            .collect();
        for name in findings {
            assert!(names.contains(name), "{statement}: {verification}");
        }
        assert_eq!(source.verify().await["is_valid"], true, "{statement}");
        let broken = app.broken_invariants().await;
        assert!(broken.iter().any(|(name, _)| name == invariant), "{statement}: {broken:?}");
        // The test has violated the invariants.
        app.stop_unchecked().await;
    }
}
