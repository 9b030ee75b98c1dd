//! Stored histories that the model would refuse. The service never writes such a history, so these
//! tests break it with SQL. The sent history is repaired, and the stored one does not change.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Session, TestApp, calls, replies, says, stops_short};

/// A script with two calls after a message about the time, and an answer to every other message.
fn script() -> Value {
    let call = |zone: &str| json!({ "type": "tool_use", "name": "get_time", "input": { "timezone": zone } });
    json!({ "conversations": [
        { "when": "time", "replies": [
            { "content": [{ "type": "text", "text": "Let me look." }, call("UTC"), call("Asia/Tokyo")] },
            says("It is late."),
        ] },
        { "replies": [says("Still here.")] },
    ], "otherwise": "refuse" })
}

/// Changes the stored history, with triggers disabled.
async fn break_history(app: &TestApp, statement: &str) {
    let mut conn = app.database.pool(1).acquire().await.unwrap();
    for statement in ["SET session_replication_role = replica", statement] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut *conn).await.unwrap();
    }
}

async fn stored(session: &Session<'_>) -> Vec<Value> {
    session.history().await.into_iter().map(|item| item["message"].clone()).collect()
}

/// Asks for the time, breaks the history, and asserts that a restarted service continues with it.
async fn assert_continues(statement: &str, kinds: &[(&str, u64)]) {
    let app = TestApp::start(script()).await;
    let session = app.session().await;
    assert_eq!(session.ask("What time is it?").await["output_text"], "It is late.");
    let id = session.id.clone();
    break_history(&app, statement).await;
    let app = app.restarted(script()).await;
    let session = app.existing_session(&id);
    let before = stored(&session).await;
    let run = session.ask("Are you there?").await;
    assert_eq!(run["output_text"], "Still here.", "{statement}: {run}");
    assert_eq!(reported(&session).await, kinds_of(kinds), "{statement}");
    let after = stored(&session).await;
    assert_eq!(after[..before.len()], before, "{statement}: the stored history has changed");
    app.end_repaired(kinds);
}

/// The kinds of the repairs that the events of a session report.
async fn reported(session: &Session<'_>) -> Vec<String> {
    let events = session.events().await;
    let repairs = events.iter().filter_map(|event| event["history_repairs"].as_array());
    let mut kinds: Vec<String> = repairs
        .flatten()
        .inspect(|repair| assert!(repair["message_seq"].is_i64(), "{repair}"))
        .map(|repair| repair["kind"].as_str().unwrap().to_owned())
        .collect();
    kinds.sort_unstable();
    kinds
}

fn kinds_of(kinds: &[(&str, u64)]) -> Vec<String> {
    let mut all: Vec<String> =
        kinds.iter().flat_map(|(kind, times)| (0..*times).map(|_| (*kind).to_owned())).collect();
    all.sort_unstable();
    all
}

/// A statement that removes one block of a message.
fn without(seq: u32, block: u32) -> String {
    format!(
        "UPDATE messages SET content = (
             SELECT json_agg(b.value ORDER BY b.ord)
             FROM json_array_elements(content) WITH ORDINALITY AS b (value, ord)
             WHERE b.ord <> {block})
         WHERE seq = {seq}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_result_is_added() {
    assert_continues(&without(3, 1), &[("missing_result", 1)]).await;
    assert_continues("DELETE FROM messages WHERE seq = 3", &[("missing_result", 2)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_without_its_call_is_left_out() {
    assert_continues(&without(2, 2), &[("orphaned_result", 1)]).await;
    let calls = "DELETE FROM messages WHERE seq = 2";
    assert_continues(calls, &[("orphaned_result", 2), ("empty_message", 1)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_results_are_moved_and_duplicates_left_out() {
    let late = "UPDATE messages SET seq = seq + 100 WHERE seq IN (3, 4);
                UPDATE messages SET seq = 107 - seq WHERE seq > 100";
    assert_continues(late, &[("late_result", 2), ("empty_message", 1)]).await;
    let twice = "UPDATE messages SET content = (
                     SELECT json_agg(b) FROM (
                         SELECT b FROM json_array_elements(content) b
                         UNION ALL SELECT json_array_elements(content)) AS twice (b))
                 WHERE seq = 3";
    assert_continues(twice, &[("duplicate_result", 2)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blank_text_and_empty_messages_are_left_out() {
    let blank = r#"UPDATE messages SET content = '[{"type":"text","text":"\n"}]' WHERE seq = 4"#;
    assert_continues(blank, &[("blank_text", 1), ("empty_message", 1)]).await;
    let empty = "ALTER TABLE messages DROP CONSTRAINT messages_content_check;
                 UPDATE messages SET content = '[]' WHERE seq = 4";
    assert_continues(empty, &[("empty_message", 1)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_without_a_first_user_message_gets_one() {
    let first = "DELETE FROM messages WHERE seq = 1";
    assert_continues(first, &[("missing_user_message", 1)]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_continues_after_a_paused_turn_was_cancelled() {
    let paused = json!({ "stop_reason": "pause_turn", "content": [
        { "type": "text", "text": "I will search." },
        { "type": "server_tool_use", "name": "web_search", "input": { "query": "x" } } ] });
    let script = || {
        json!({ "conversations": [
            { "when": "search", "replies": [paused, stops_short("And found much")] },
            { "replies": [says("Still here.")] },
        ], "otherwise": "refuse" })
    };
    // With the transcript in memory, and with one that is read from the database.
    for restarts in [false, true] {
        let mut app = TestApp::start(script()).await;
        let id = app.session().await.id;
        let session = app.existing_session(&id);
        let run = session.post(json!({ "content": "Please search" })).await;
        asked_twice(&app).await;
        session.cancel(&run).await;
        assert_eq!(session.settled(&run).await["status"], "cancelled");
        if restarts {
            app = app.restarted(script()).await;
        }
        let session = app.existing_session(&id);
        assert_eq!(session.ask("Are you there?").await["output_text"], "Still here.");
        assert_eq!(session.ask("And now?").await["output_text"], "Still here.");
        assert_eq!(session.verify().await["findings"], json!([]));
        assert_eq!(reported(&session).await, ["open_server_call"]);
        app.end_repaired(&[("open_server_call", 1)]);
    }
}

async fn asked_twice(app: &TestApp) {
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while app.upstream().len() < 2 {
        assert!(tokio::time::Instant::now() < deadline, "the turn was not resumed");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_and_requests_are_counted() {
    let app = TestApp::start(replies(&[calls("get_time", json!({})), says("Noon.")])).await;
    let session = app.session().await;
    assert_eq!(session.ask("Hello").await["status"], "completed");
    let response = app.get("/metrics").send().await.unwrap();
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(response.headers()["content-type"], kind);
    let text = response.text().await.unwrap();
    let figures: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.starts_with("twostep_history_repairs"))
        .filter(|line| !line.ends_with(" 0") && !line.ends_with(" 0.0"))
        .collect();
    let expected = [
        "twostep_runs_accepted_total 1",
        r#"twostep_runs_settled_total{status="completed"} 1"#,
        r#"twostep_runs_claimed_total{how="handed"} 1"#,
        r#"twostep_model_requests_total{outcome="replied"} 2"#,
        r#"twostep_model_provider_requests_total{provider="default",outcome="replied"} 2"#,
    ];
    assert_eq!(figures, expected);
}
