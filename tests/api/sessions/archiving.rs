//! Archived sessions.

use serde_json::{Value, json};

use crate::support::{Session, TestApp, asks, calls_as, problem, replies, says};

async fn start() -> TestApp {
    TestApp::start(replies(&[says("Yes.")])).await
}

async fn set_archived(session: &Session<'_>, archived: bool) -> Value {
    let request = session.app.client.patch(session.app.url(&session.path("")));
    let response = request.json(&json!({ "archived": archived })).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.json().await.unwrap()
}

async fn listed(app: &TestApp, query: &str) -> Vec<Value> {
    let response = app.get(&format!("/v1/sessions?{query}")).send().await.unwrap();
    let page: Value = response.json().await.unwrap();
    page["data"].as_array().unwrap().iter().map(|session| session["id"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_omit_archived_sessions_unless_the_query_includes_them() {
    let app = start().await;
    let (active, archived) = (app.session().await, app.session().await);
    set_archived(&archived, true).await;
    for (query, expected) in [
        ("", vec![&active]),
        ("archived=false", vec![&active]),
        ("archived=true", vec![&archived]),
        ("archived=any", vec![&archived, &active]),
    ] {
        let expected: Vec<Value> = expected.iter().map(|session| json!(session.id)).collect();
        assert_eq!(listed(&app, query).await, expected, "{query}");
    }
    set_archived(&archived, false).await;
    assert_eq!(listed(&app, "").await, [json!(archived.id), json!(active.id)]);
    let invalid = app.get("/v1/sessions?archived=maybe").send().await.unwrap();
    problem(invalid, 400, "invalid_query").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_get_an_event_when_a_session_is_archived_or_unarchived() {
    let app = start().await;
    let session = app.session().await;
    let read = async || -> Value {
        app.get(&session.path("")).send().await.unwrap().json().await.unwrap()
    };
    let before = read().await;
    assert_eq!((&before["archived"], before.get("archived_at")), (&json!(false), None));
    let mut stream = session.open(&session.path("/events/stream"), None).await;
    let archived = set_archived(&session, true).await;
    assert_eq!((&archived["archived"], &archived["last_seq"]), (&json!(true), &json!(1)));
    assert_eq!(archived["archived_at"], archived["updated_at"]);
    assert_eq!(stream.until("session.updated").await.data["archived"], true);
    // Archiving it again changes nothing.
    assert_eq!(set_archived(&session, true).await, archived);

    let mut active = set_archived(&session, false).await;
    assert_eq!(stream.until("session.updated").await.data["archived"], false);
    assert_eq!(active["last_seq"], 2);
    for member in ["last_seq", "updated_at"] {
        active[member] = before[member].clone();
    }
    assert_eq!(active, before);
    let invalid = app.client.patch(app.url(&session.path(""))).json(&json!({ "archived": null }));
    problem(invalid.send().await.unwrap(), 422, "validation_failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_session_accepts_no_message_until_it_is_unarchived() {
    let app = start().await;
    let session = app.session().await;
    let once = json!({ "content": "Hello", "id": "msg_once" });
    let first = session.ask_with(once.clone()).await;
    set_archived(&session, true).await;
    let (history, events) = (session.history().await, session.events().await);
    for on_busy in ["queue", "reject", "interrupt"] {
        let body = json!({ "content": "Hello again", "on_busy": on_busy });
        let refused = session.message(&body).send().await.unwrap();
        assert_eq!(refused.headers()["x-should-retry"], "false");
        problem(refused, 409, "session_archived").await;
    }
    // A repeated request gets the response of the first one, with the number of the newest event.
    let mut again = session.ask_with(once).await;
    assert_eq!(again["seq"].as_i64(), first["seq"].as_i64().map(|seq| seq + 1));
    again["seq"] = first["seq"].clone();
    assert_eq!(again, first);
    // A stale version is reported before the archived state.
    let stale = session.message(&json!({ "content": "Hi" })).header("if-match", "\"v1\"");
    problem(stale.send().await.unwrap(), 412, "version_mismatch").await;
    assert_eq!((session.history().await, session.events().await), (history, events));

    set_archived(&session, false).await;
    assert_eq!(session.ask("Hello again").await["output_text"], "Yes.");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_session_continue_after_it_is_archived() {
    let ring = calls_as(&[("toolu_01ring", "ring", json!({ "line": "one" }))]);
    let script = json!({ "conversations": [
        { "when": "Ring", "replies": [ring, says("Rang.")] },
        { "replies": [says("Yes.")] },
    ], "otherwise": "refuse" });
    let app = TestApp::start_with(script, asks()).await;
    let session = app.session().await;
    let live = session.post(json!({ "content": "Ring" })).await;
    session.waits_for(&live, &["toolu_01ring"]).await;
    let queued = session.post(json!({ "content": "And then?" })).await;
    set_archived(&session, true).await;
    let body = json!({ "content": "Stop!", "on_busy": "interrupt" });
    problem(session.message(&body).send().await.unwrap(), 409, "session_archived").await;

    session.allow("toolu_01ring", json!({})).await;
    assert_eq!(session.settled(&live).await["output_text"], "Rang.");
    assert_eq!(session.settled(&queued).await["output_text"], "Yes.");
}
