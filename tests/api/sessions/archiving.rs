//! Sessions that are put away, and taken back.

use serde_json::{Value, json};

use crate::support::{Session, TestApp, asks, calls_as, problem, replies, says};

async fn start() -> TestApp {
    TestApp::start(replies(&[says("Yes.")])).await
}

async fn put_away(session: &Session<'_>, archived: bool) -> Value {
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
async fn an_archived_session_is_left_out_of_lists_that_do_not_ask_for_it() {
    let app = start().await;
    let (kept, away) = (app.session().await, app.session().await);
    put_away(&away, true).await;
    for (query, expected) in [
        ("", vec![&kept]),
        ("archived=false", vec![&kept]),
        ("archived=true", vec![&away]),
        ("archived=any", vec![&away, &kept]),
    ] {
        let expected: Vec<Value> = expected.iter().map(|session| json!(session.id)).collect();
        assert_eq!(listed(&app, query).await, expected, "{query}");
    }
    put_away(&away, false).await;
    assert_eq!(listed(&app, "").await, [json!(away.id), json!(kept.id)]);
    let odd = app.get("/v1/sessions?archived=maybe").send().await.unwrap();
    problem(odd, 400, "invalid_query").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_are_told_when_a_session_is_put_away_and_taken_back() {
    let app = start().await;
    let session = app.session().await;
    let read = async || -> Value {
        app.get(&session.path("")).send().await.unwrap().json().await.unwrap()
    };
    let before = read().await;
    assert_eq!((&before["archived"], before.get("archived_at")), (&json!(false), None));
    let mut stream = session.open(&session.path("/events/stream"), None).await;
    let away = put_away(&session, true).await;
    assert_eq!((&away["archived"], &away["last_seq"]), (&json!(true), &json!(1)));
    assert_eq!(away["archived_at"], away["updated_at"]);
    assert_eq!(stream.until("session.updated").await.data["archived"], true);
    // Once is enough.
    assert_eq!(put_away(&session, true).await, away);

    let mut back = put_away(&session, false).await;
    assert_eq!(stream.until("session.updated").await.data["archived"], false);
    assert_eq!(back["last_seq"], 2);
    for member in ["last_seq", "updated_at"] {
        back[member] = before[member].clone();
    }
    assert_eq!(back, before);
    let odd = app.client.patch(app.url(&session.path(""))).json(&json!({ "archived": null }));
    problem(odd.send().await.unwrap(), 422, "validation_failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_session_takes_no_message_until_it_is_taken_back() {
    let app = start().await;
    let session = app.session().await;
    let once = json!({ "content": "Hello", "id": "msg_once" });
    let first = session.ask_with(once.clone()).await;
    put_away(&session, true).await;
    let (history, events) = (session.history().await, session.events().await);
    for on_busy in ["queue", "reject", "interrupt"] {
        let body = json!({ "content": "Hello again", "on_busy": on_busy });
        let refused = session.message(&body).send().await.unwrap();
        assert_eq!(refused.headers()["x-should-retry"], "false");
        problem(refused, 409, "session_archived").await;
    }
    // What was accepted before is answered as then.
    assert_eq!(session.ask_with(once).await, first);
    // A version that is no longer the session's is what the client hears of first.
    let stale = session.message(&json!({ "content": "Hi" })).header("if-match", "\"v1\"");
    problem(stale.send().await.unwrap(), 412, "version_mismatch").await;
    assert_eq!((session.history().await, session.events().await), (history, events));

    put_away(&session, false).await;
    assert_eq!(session.ask("Hello again").await["output_text"], "Yes.");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_and_waits_in_a_session_goes_on_when_it_is_put_away() {
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
    put_away(&session, true).await;
    let body = json!({ "content": "Stop!", "on_busy": "interrupt" });
    problem(session.message(&body).send().await.unwrap(), 409, "session_archived").await;

    session.allow("toolu_01ring", json!({})).await;
    assert_eq!(session.settled(&live).await["output_text"], "Rang.");
    assert_eq!(session.settled(&queued).await["output_text"], "Yes.");
}
