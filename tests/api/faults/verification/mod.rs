//! Verifying: what is sound is found sound at any moment, and what is broken is found and named.

mod command;
mod corruptions;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Executor as _, PgConnection};
use twostep::tools::Typed;

use crate::support::{Endless, Session, Setup, TestApp, calls, problem, replies, says};
use corruptions::{BREAKS, KEEPS};

/// Two calls at once, and then an answer, for every message but one that blocks.
fn script() -> Value {
    let call = json!({ "type": "tool_use", "name": "get_time", "input": {} });
    let asks = json!({ "content": [{ "type": "text", "text": "Let me see." }, call, call] });
    json!({ "conversations": [
        { "when": "block", "replies": [{ "content": [], "hang_after": 0 }] },
        { "replies": [asks, says("It is noon.")] },
    ]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_session_is_found_sound() {
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

/// Takes away what keeps the database from being broken: its checks and keys.
async fn disarm(conn: &mut PgConnection) {
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

/// The words of the invariants that are named, each once.
fn named(verification: &Value) -> Vec<String> {
    let findings = verification["findings"].as_array().unwrap();
    assert_eq!(verification["is_valid"], findings.is_empty());
    let mut words: Vec<String> =
        findings.iter().map(|finding| finding["invariant"].as_str().unwrap().to_owned()).collect();
    let mut seen = BTreeSet::new();
    words.retain(|word| seen.insert(word.clone()));
    words
}

/// A service with sessions of two runs each, and no worker that would mend what is done to them.
async fn prepared(app: &TestApp, count: usize) -> Vec<Session<'_>> {
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

/// Does something to a session, past all that keeps the database from it.
async fn tamper(session: &Session<'_>, statement: &'static str) {
    let mut conn = session.app.database.pool(1).acquire().await.unwrap();
    conn.execute("SET session_replication_role = replica").await.unwrap();
    let query = sqlx::query(statement).bind(session.uuid());
    let done = query.execute(&mut *conn).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
    assert!(done.rows_affected() > 0, "{statement}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_broken_is_found_and_named() {
    let app = with_one_slot().await;
    let sessions = prepared(&app, BREAKS.len()).await;
    disarm(&mut app.database.pool(1).acquire().await.unwrap()).await;
    for (session, (statement, expected)) in sessions.iter().zip(BREAKS) {
        assert_eq!(named(&session.verify().await), Vec::<String>::new());
        tamper(session, statement).await;
        let verification = session.verify().await;
        assert_eq!(named(&verification), *expected, "{statement}: {verification:#}");
    }
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_looks_broken_is_not_named() {
    let app = with_one_slot().await;
    let sessions = prepared(&app, KEEPS.len()).await;
    for (session, statement) in sessions.iter().zip(KEEPS) {
        tamper(session, statement).await;
        let verification = session.verify().await;
        assert_eq!(named(&verification), Vec::<String>::new(), "{statement}: {verification:#}");
    }
    app.stop_unchecked().await;
}

#[test]
fn every_invariant_is_broken_once() {
    let document = serde_json::to_value(twostep::http::document()).unwrap();
    let words = document["components"]["schemas"]["Invariant"]["enum"].as_array().unwrap();
    let words: BTreeSet<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
    let broken: BTreeSet<&str> =
        BREAKS.iter().flat_map(|(_, expected)| expected.iter().copied()).collect();
    assert_eq!(broken, words);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finding_says_where_and_how() {
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
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_a_live_run_is_no_fault() {
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
        session.post(json!({ "content": "wait behind it" })).await;
        assert_eq!(named(&session.verify().await), Vec::<String>::new(), "{text}");
        let path = session.path("/cancel");
        assert!(app.post(&path).send().await.unwrap().status().is_success());
        assert_eq!(named(&session.verify().await), Vec::<String>::new(), "{text}, cancelled");
        session.settled(&run).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_go_on_meanwhile_are_sound_at_every_look() {
    let app = TestApp::start(script()).await;
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push(app.session().await);
    }
    let talk = async |session: &Session<'_>| {
        for _ in 0..10 {
            // Sessions are told apart by their first message.
            let text = format!("And now, {}?", session.id);
            let first = session.post(json!({ "content": text })).await;
            session.ask("And then?").await;
            session.settled(&first).await;
        }
    };
    let look = async {
        let mut looks = 0;
        loop {
            for session in &sessions {
                assert_eq!(named(&session.verify().await), Vec::<String>::new());
                looks += 1;
            }
            let all = futures::future::join_all(sessions.iter().map(Session::verify)).await;
            if all.iter().all(|one| one["checked"]["runs"] == 20) {
                return looks;
            }
        }
    };
    let (looks, _) = tokio::join!(look, futures::future::join_all(sessions.iter().map(talk)));
    assert!(looks > 4, "it was looked at {looks} times");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_taken_up_and_has_not_begun_is_sound() {
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
    assert_eq!(named(&session.verify().await), Vec::<String>::new());
    blocker.cancel(&blocking).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_holds_any_character_is_sound() {
    let app = TestApp::start(replies(&[says("\u{0} \u{1F600} \n\r \u{2028} \"quoted\"")])).await;
    let session = app.session().await;
    session.ask("One\r\ntwo \u{1F600}").await;
    assert_eq!(named(&session.verify().await), Vec::<String>::new());
    // The other witness is SQL, which cannot read a NUL.
    app.stop_unchecked().await;
}
