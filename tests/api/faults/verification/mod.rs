//! Verification: valid sessions have no findings at any moment, and violations are found and named.

mod command;
mod corruptions;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Executor as _, PgConnection};
use twostep::tools::Typed;

use crate::support::{Endless, Session, Setup, TestApp, calls, problem, replies, says};
use corruptions::{VALID_CHANGES, VIOLATIONS};

/// A script with two calls and an answer for every message. A message with `block` hangs.
fn script() -> Value {
    let call = json!({ "type": "tool_use", "name": "get_time", "input": {} });
    let asks = json!({ "content": [{ "type": "text", "text": "Let me see." }, call, call] });
    json!({ "conversations": [
        { "when": "block", "replies": [{ "content": [], "hang_after": 0 }] },
        { "replies": [asks, says("It is noon.")] },
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_session_has_no_findings() {
    let app = TestApp::start(script()).await;
    let session = app.session().await;
    let verification = |checked: Value| {
        json!({
            "type": "verification", "session_id": session.id, "is_valid": true, "findings": [],
            "checked": checked,
        })
    };
    let nothing = json!({ "messages": 0, "runs": 0, "calls": 0, "events": 0 });
    assert_eq!(session.verify().await, verification(nothing));
    session.ask("What time is it?").await;
    session.ask("And now?").await;
    let events = session.events().await.len();
    let all = json!({ "messages": 8, "runs": 2, "calls": 4, "events": events });
    assert_eq!(session.verify().await, verification(all));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_does_not_exist_is_not_verified() {
    let app = TestApp::start(script()).await;
    for id in ["ses_00000000000070008000000000000000", "nonsense"] {
        let response = app.get(&format!("/v1/sessions/{id}/verify")).send().await.unwrap();
        problem(response, 404, "session_not_found").await;
    }
}

/// Drops the constraints that refuse invalid rows.
async fn drop_constraints(conn: &mut PgConnection) {
    let checks: Vec<String> = sqlx::query_scalar(
        "SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname)
         FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace",
    )
    .fetch_all(&mut *conn)
    .await
    .unwrap();
    for statement in checks {
        conn.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    conn.execute("DROP INDEX runs_one_live").await.unwrap();
}

/// The names of the violated invariants, each once.
fn violated(verification: &Value) -> Vec<String> {
    let findings = verification["findings"].as_array().unwrap();
    assert_eq!(verification["is_valid"], findings.is_empty());
    let mut names: Vec<String> =
        findings.iter().map(|finding| finding["invariant"].as_str().unwrap().to_owned()).collect();
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names
}

/// Sessions of two runs each, and a run that blocks the only slot, so that no worker repairs them.
async fn sessions_and_blocked_worker(app: &TestApp, count: usize) -> Vec<Session<'_>> {
    let mut sessions = Vec::new();
    for _ in 0..count {
        let session = app.session().await;
        session.ask("What time is it now?").await;
        session.ask("And now?").await;
        sessions.push(session);
    }
    let blocker = app.session().await;
    let blocking = blocker.post(json!({ "content": "block the only slot" })).await;
    blocker.reached(&blocking, "span.model_request_start").await;
    sessions
}

async fn with_one_slot() -> TestApp {
    TestApp::start_with(script(), Setup { slots: Some(1), ..Setup::default() }).await
}

/// Changes the rows of a session with SQL, with triggers disabled.
async fn tamper(session: &Session<'_>, statement: &'static str) {
    let mut conn = session.app.database.pool(1).acquire().await.unwrap();
    conn.execute("SET session_replication_role = replica").await.unwrap();
    let query = sqlx::query(statement).bind(session.uuid());
    let done = query.execute(&mut *conn).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
    assert!(done.rows_affected() > 0, "{statement}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_violation_is_found_and_named() {
    let app = with_one_slot().await;
    let sessions = sessions_and_blocked_worker(&app, VIOLATIONS.len()).await;
    drop_constraints(&mut app.database.pool(1).acquire().await.unwrap()).await;
    for (session, (statement, expected)) in sessions.iter().zip(VIOLATIONS) {
        assert_eq!(violated(&session.verify().await), Vec::<String>::new());
        tamper(session, statement).await;
        let verification = session.verify().await;
        assert_eq!(violated(&verification), *expected, "{statement}: {verification:#}");
    }
    // The test has violated the invariants.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn valid_changes_are_not_reported() {
    let app = with_one_slot().await;
    let sessions = sessions_and_blocked_worker(&app, VALID_CHANGES.len()).await;
    for (session, statement) in sessions.iter().zip(VALID_CHANGES) {
        tamper(session, statement).await;
        let verification = session.verify().await;
        assert_eq!(violated(&verification), Vec::<String>::new(), "{statement}: {verification:#}");
    }
    // The run that blocks the worker is still active.
    app.stop_unchecked().await;
}

#[test]
fn every_invariant_is_violated_at_least_once() {
    let document = serde_json::to_value(twostep::http::document()).unwrap();
    let names = document["components"]["schemas"]["Invariant"]["enum"].as_array().unwrap();
    let names: BTreeSet<&str> = names.iter().map(|name| name.as_str().unwrap()).collect();
    let mut tested: BTreeSet<&str> =
        VIOLATIONS.iter().flat_map(|(_, expected)| expected.iter().copied()).collect();
    // Only the command finds rows whose session does not exist; see `command`.
    assert!(tested.insert("session_exists"));
    assert_eq!(tested, names);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finding_has_a_place_and_a_detail() {
    let app = TestApp::start(script()).await;
    let session = app.session().await;
    let run = session.ask("What time is it?").await;
    let history = session.history().await;
    let id = history[1]["message"]["content"][2]["id"].as_str().unwrap();
    let statement = "UPDATE messages SET content = json_build_array(content -> 0)
                     WHERE session_id = $1 AND seq = 3";
    tamper(&session, statement).await;
    let verification = session.verify().await;
    let expected = json!([{
        "invariant": "calls_answered",
        "place": { "session_id": session.id, "run_id": run["id"], "message_seq": 3,
                   "tool_use_id": id },
        "detail": format!("call {id} of the previous message has no result"),
    }]);
    assert_eq!(verification["findings"], expected);
    // The test has violated an invariant.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_run_violates_nothing() {
    let script = json!({ "conversations": [
        { "when": "model", "replies": [{ "content": [], "hang_after": 0 }] },
        { "when": "pure", "replies": [calls("ponder", json!({}))] },
        { "when": "effect", "replies": [calls("launch", json!({}))] },
        { "when": "retry", "replies": [{ "status": 529, "headers": { "retry-after": "50" } }] },
    ]});
    let tools: Vec<Arc<dyn twostep::tools::Tool>> =
        vec![Arc::new(Typed(Endless::<true>)), Arc::new(Typed(Endless::<false>))];
    let app = TestApp::start_with(script, Setup { tools, ..Setup::default() }).await;
    for (text, kind) in [
        ("model", "span.model_request_start"),
        ("pure", "agent.tool_use"),
        ("effect", "agent.tool_use"),
        ("retry", "session.status_rescheduled"),
    ] {
        let session = app.session().await;
        let run = session.post(json!({ "content": text })).await;
        session.reached(&run, kind).await;
        session.post(json!({ "content": "wait" })).await;
        assert_eq!(violated(&session.verify().await), Vec::<String>::new(), "{text}");
        let path = session.path("/cancel");
        assert!(app.post(&path).send().await.unwrap().status().is_success());
        assert_eq!(violated(&session.verify().await), Vec::<String>::new(), "{text}, cancelled");
        session.settled(&run).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_runs_are_valid_at_every_check() {
    let app = TestApp::start(script()).await;
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(app.session().await);
    }
    let talk = async |session: &Session<'_>| {
        for _ in 0..10 {
            // The simulator distinguishes sessions by their first message.
            let text = format!("And now, {}?", session.id);
            let first = session.post(json!({ "content": text })).await;
            session.ask("And then?").await;
            session.settled(&first).await;
        }
    };
    let check = async {
        let mut checks = 0;
        loop {
            for session in &sessions {
                assert_eq!(violated(&session.verify().await), Vec::<String>::new());
                checks += 1;
            }
            let all = futures::future::join_all(sessions.iter().map(Session::verify)).await;
            if all.iter().all(|one| one["checked"]["runs"] == 20) {
                return checks;
            }
        }
    };
    let (checks, _) = tokio::join!(check, futures::future::join_all(sessions.iter().map(talk)));
    assert!(checks > 4, "only {checks} checks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_run_that_has_not_begun_is_valid() {
    let app = TestApp::start_with(script(), Setup { slots: Some(1), ..Setup::default() }).await;
    let blocker = app.session().await;
    let blocking = blocker.post(json!({ "content": "block" })).await;
    blocker.reached(&blocking, "span.model_request_start").await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Hello" })).await;
    assert_eq!(run["status"], "queued");
    let pool = app.database.pool(1);
    let claim = "UPDATE runs SET status = 'running', attempt = 1, started_at = now(),
                        lease_until = now() + interval '1 second' WHERE session_id = $1";
    sqlx::query(claim).bind(session.uuid()).execute(&pool).await.unwrap();
    assert_eq!(violated(&session.verify().await), Vec::<String>::new());
    blocker.cancel(&blocking).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_with_any_characters_is_valid() {
    let app = TestApp::start(replies(&[says("\u{0} \u{1F600} \n\r \u{2028} \"quoted\"")])).await;
    let session = app.session().await;
    session.ask("One\r\ntwo \u{1F600}").await;
    assert_eq!(violated(&session.verify().await), Vec::<String>::new());
    // The second implementation of the checks is SQL, which cannot read a NUL.
    app.stop_unchecked().await;
}
