//! The stream of the list of sessions.

use std::time::Duration;

use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use sqlx::Connection as _;
use tokio::time::timeout;
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::{
    Session, Setup, TestApp, asks, calls_as, client_bearing, client_with, hangs_first, keys_needed,
    problem, replies, says,
};

/// An open stream of the list.
struct ListStream {
    response: Response,
    text: String,
    /// The last position.
    position: String,
}

impl ListStream {
    async fn open(app: &TestApp) -> Self {
        Self::with(&app.client, &app.url("/v1/sessions/stream")).await
    }

    async fn with(client: &Client, url: &str) -> Self {
        Self::of(client.get(url).send().await.unwrap()).await
    }

    async fn resume(app: &TestApp, position: &str) -> Self {
        let request = app.get("/v1/sessions/stream").header("last-event-id", position);
        Self::of(request.send().await.unwrap()).await
    }

    async fn of(response: Response) -> Self {
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut stream = Self { response, text: String::new(), position: String::new() };
        while !stream.text.contains("\n\n") {
            stream.read().await;
        }
        assert!(stream.text.starts_with("retry: 2000\nid: "), "{}", stream.text);
        stream.block();
        stream
    }

    async fn read(&mut self) {
        let chunk = timeout(Duration::from_secs(30), self.response.chunk()).await;
        let chunk = chunk.expect("nothing was received for 30 s").unwrap();
        self.text.push_str(std::str::from_utf8(&chunk.expect("the stream has ended")).unwrap());
    }

    /// The next complete block; its `id` becomes the position.
    fn block(&mut self) -> Option<String> {
        let (block, rest) = self.text.split_once("\n\n")?;
        let (block, rest) = (block.to_owned(), rest.to_owned());
        if let Some(id) = block.lines().find_map(|line| line.strip_prefix("id: ")) {
            id.clone_into(&mut self.position);
        }
        self.text = rest;
        Some(block)
    }

    async fn next(&mut self) -> Value {
        loop {
            if let Some(block) = self.block() {
                assert!(block.contains("event: session.changed\n"), "{block}");
                let data = block.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
                let event: Value = serde_json::from_str(data).unwrap();
                assert_eq!(event["type"], "session.changed");
                if let Some(position) = event["position"].as_str() {
                    assert_eq!(position, self.position);
                }
                return event;
            }
            self.read().await;
        }
    }

    /// Reads up to the first event of the session with this change.
    async fn until(&mut self, session: &Session<'_>, change: &str) -> Value {
        loop {
            let event = self.next().await;
            if event["session_id"] == session.id && has(&event, change) {
                return event;
            }
        }
    }
}

fn has(event: &Value, change: &str) -> bool {
    event["changes"].as_array().unwrap().iter().any(|it| it == change)
}

async fn patch(session: &Session<'_>, body: Value) {
    let request = session.app.client.patch(session.app.url(&session.path(""))).json(&body);
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
}

async fn delete(session: &Session<'_>) {
    let request = session.app.client.delete(session.app.url(&session.path("")));
    assert_eq!(request.send().await.unwrap().status(), StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_a_session_is_an_event_with_its_present_state() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let mut stream = ListStream::open(&app).await;
    let session = app.session_with(json!({ "title": "First" })).await;
    let created = stream.until(&session, "created").await;
    assert_eq!(created["session"]["title"], "First");
    session.ask("Hi").await;
    let finished = stream.until(&session, "finished").await;
    assert_eq!(finished["session"]["status"], "idle");
    assert_eq!(finished["session"]["stop_reason"], json!({ "type": "end_turn" }));
    patch(&session, json!({ "title": "Second" })).await;
    assert_eq!(stream.until(&session, "updated").await["session"]["title"], "Second");
    patch(&session, json!({ "archived": true })).await;
    assert_eq!(stream.until(&session, "archived").await["session"]["archived"], true);
    patch(&session, json!({ "archived": false })).await;
    stream.until(&session, "restored").await;
    delete(&session).await;
    let deleted = stream.until(&session, "deleted").await;
    assert_eq!(deleted["changes"], json!(["deleted"]));
    assert!(deleted.get("session").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_starts_or_waits_for_the_client_is_an_event() {
    let ring = calls_as(&[("toolu_01ring", "ring", json!({ "line": "one" }))]);
    let app = TestApp::start_with(replies(&[ring, says("Rang.")]), asks()).await;
    let mut stream = ListStream::open(&app).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Ring" })).await;
    let waiting = stream.until(&session, "requires_action").await;
    assert_eq!(waiting["session"]["stop_reason"]["type"], "requires_action");
    session.cancel(&run).await;
    let finished = stream.until(&session, "finished").await;
    assert_eq!(finished["session"]["stop_reason"]["type"], "cancelled");

    let app = TestApp::start(hangs_first()).await;
    let mut stream = ListStream::open(&app).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "hang" })).await;
    let running = stream.until(&session, "running").await;
    assert_eq!(running["session"]["active_run_id"], run["id"]);
    session.cancel(&run).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_resumes_without_a_loss() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let gone = app.session().await;
    let stream = ListStream::open(&app).await;
    let position = stream.position.clone();
    drop(stream);
    let session = app.session().await;
    session.ask("Hi").await;
    delete(&gone).await;

    let mut resumed = ListStream::resume(&app, &position).await;
    let mut events = [resumed.next().await, resumed.next().await];
    events.sort_by_key(|event| event["session_id"] == session.id);
    assert_eq!((&events[0]["session_id"], has(&events[0], "deleted")), (&json!(gone.id), true));
    assert!(has(&events[1], "created") && has(&events[1], "finished"), "{}", events[1]);
    assert_ne!(resumed.position, position);
    let position = resumed.position.clone();
    drop(resumed);

    let other = app.session().await;
    let mut resumed = ListStream::resume(&app, &position).await;
    assert_eq!(resumed.next().await["session_id"], other.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_committed_after_later_ones_is_not_lost() {
    let app = TestApp::start(replies(&[])).await;
    let [late, early] = [app.session().await, app.session().await];
    let mut stream = ListStream::open(&app).await;

    let pool = app.database.pool(1);
    let mut conn = pool.acquire().await.unwrap();
    let mut transaction = conn.begin().await.unwrap();
    let id = late.id.strip_prefix("ses_").unwrap();
    let insert = "WITH session AS (
                      UPDATE sessions SET title = 'Late', last_seq = last_seq + 1
                      WHERE id = $1::uuid RETURNING id, tenant_id, last_seq)
                  INSERT INTO events (session_id, seq, tenant_id, event_id, type, body)
                  SELECT id, last_seq, tenant_id, 'evt_late', 'session.updated',
                         '{\"type\":\"session.updated\",\"title\":\"Late\"}'
                  FROM session";
    sqlx::query(insert).bind(id).execute(&mut *transaction).await.unwrap();
    patch(&early, json!({ "title": "Early" })).await;
    stream.until(&early, "updated").await;
    let position = stream.position.clone();
    transaction.commit().await.unwrap();

    // Another change makes the open stream read.
    patch(&early, json!({ "title": "Again" })).await;
    assert_eq!(stream.until(&late, "updated").await["session"]["title"], "Late");
    let mut resumed = ListStream::resume(&app, &position).await;
    resumed.until(&late, "updated").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_sees_only_the_sessions_of_its_tenant_and_user() {
    let app = TestApp::start_with(replies(&[]), keys_needed()).await;
    let token = json!({ "user": "anna", "scopes": ["read"] });
    let token = app.post("/v1/browser_tokens").json(&token).send().await.unwrap();
    let token: Value = token.json().await.unwrap();
    let browser = client_bearing(token["token"].as_str().unwrap());
    let url = app.url("/v1/sessions/stream");
    let mut of_anna = ListStream::with(&browser, &url).await;
    let mut of_ben = ListStream::with(&app.client, &format!("{url}?user=ben")).await;
    let tenant = app.database.tenant("other").await;
    let other = client_with(Some(&app.database.key(tenant, Scope::Write).await));
    let mut of_other = ListStream::with(&other, &url).await;
    let refused = browser.get(format!("{url}?user=ben")).send().await.unwrap();
    problem(refused, 403, "forbidden").await;

    let ben = app.session_with(json!({ "user": "ben", "metadata": { "plan": "free" } })).await;
    let gone = app.session_with(json!({ "user": "ben" })).await;
    delete(&gone).await;
    let anna = app.session_with(json!({ "user": "anna", "metadata": { "plan": "free" } })).await;
    let seen = of_anna.next().await;
    assert_eq!((&seen["session_id"], &seen["session"]["metadata"]), (&json!(anna.id), &json!({})));
    let seen = of_ben.until(&ben, "created").await;
    assert_eq!(seen["session"]["metadata"], json!({ "plan": "free" }));
    let created = other.post(app.url("/v1/sessions")).json(&json!({})).send().await.unwrap();
    let created: Value = created.json().await.unwrap();
    assert_eq!(of_other.next().await["session_id"], created["id"]);
    assert_ne!(tenant, TenantId::DEFAULT);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_another_process_arrive() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let second = app.second_service(Setup::default()).await;
    let mut stream = ListStream::open(&app).await;
    let created = second.post("/v1/sessions").json(&json!({})).send().await.unwrap();
    let created: Value = created.json().await.unwrap();
    let session = app.existing_session(created["id"].as_str().unwrap());
    stream.until(&session, "created").await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_position_that_is_none_or_too_old_is_refused() {
    let app = TestApp::start(replies(&[])).await;
    for position in ["7", "x", "1795368817-9:8:", "1-700:700:", "99999999999-999999999:999999999:"]
    {
        let request = app.get("/v1/sessions/stream").header("last-event-id", position);
        problem(request.send().await.unwrap(), 400, "invalid_cursor").await;
        let request = app.get(&format!("/v1/sessions/stream?after={position}"));
        problem(request.send().await.unwrap(), 400, "invalid_cursor").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_opens_the_stream_of_the_list_once() {
    let app = TestApp::start_with(replies(&[says("Hello.")]), keys_needed()).await;
    let other = app.session().await;
    let made = app.post("/v1/sessions/tickets").send().await.unwrap();
    assert_eq!(made.status(), StatusCode::CREATED);
    assert_eq!(made.headers()["cache-control"], "private, no-store");
    let made: Value = made.json().await.unwrap();
    let ticket = made["ticket"].as_str().unwrap();
    let url = made["stream_url"].as_str().unwrap();
    assert_eq!(url, format!("/v1/sessions/stream?ticket={ticket}"));

    // It opens nothing else, and is still valid after that.
    for path in ["/v1/sessions".to_owned(), other.path("/events/stream"), other.path("")] {
        let refused = app.get_as(None, &format!("{path}?ticket={ticket}")).send().await.unwrap();
        problem(refused, 401, "unauthenticated").await;
    }
    let mut stream = ListStream::of(app.get_as(None, url).send().await.unwrap()).await;
    let session = app.session().await;
    stream.until(&session, "created").await;
    let again = app.get_as(None, url).header("last-event-id", &stream.position);
    problem(again.send().await.unwrap(), 401, "unauthenticated").await;

    // A ticket of a session does not open the list.
    let of_session = app.post(&session.path("/tickets")).send().await.unwrap();
    let of_session: Value = of_session.json().await.unwrap();
    let ticket = of_session["ticket"].as_str().unwrap();
    let refused = app.get_as(None, &format!("/v1/sessions/stream?ticket={ticket}"));
    problem(refused.send().await.unwrap(), 401, "unauthenticated").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_of_the_list_shows_only_what_its_creator_may_see() {
    let app = TestApp::start_with(replies(&[says("Hello.")]), keys_needed()).await;
    let tenant = app.database.tenant("ducks").await;
    let foreign = client_with(Some(&app.database.key(tenant, Scope::Read).await));
    let anna = json!({ "user": "anna", "scopes": ["read"] });
    let token = app.post("/v1/browser_tokens").json(&anna).send().await.unwrap();
    let token: Value = token.json().await.unwrap();
    let browser = client_bearing(token["token"].as_str().unwrap());
    let mut streams = Vec::new();
    for client in [&foreign, &browser] {
        let made = client.post(app.url("/v1/sessions/tickets")).send().await.unwrap();
        assert_eq!(made.status(), StatusCode::CREATED);
        let made: Value = made.json().await.unwrap();
        let url = made["stream_url"].as_str().unwrap().to_owned();
        streams.push(ListStream::of(app.get_as(None, &url).send().await.unwrap()).await);
    }
    app.session_with(json!({ "user": "ben" })).await;
    let own = app.session_with(json!({ "user": "anna" })).await;
    let of_tenant = foreign.post(app.url("/v1/sessions")).json(&json!({})).send().await.unwrap();
    assert_eq!(of_tenant.status(), StatusCode::FORBIDDEN, "the key can only read");
    assert_eq!(streams[1].next().await["session_id"], own.id);
    let writer = client_with(Some(&app.database.key(tenant, Scope::Write).await));
    let theirs = writer.post(app.url("/v1/sessions")).json(&json!({})).send().await.unwrap();
    let theirs: Value = theirs.json().await.unwrap();
    assert_eq!(streams[0].next().await["session_id"], theirs["id"]);

    // A token for one session sees no list, and creates no ticket for it.
    let one = json!({ "session_id": own.id, "scopes": ["read"] });
    let token = app.post("/v1/browser_tokens").json(&one).send().await.unwrap();
    let token: Value = token.json().await.unwrap();
    let browser = client_bearing(token["token"].as_str().unwrap());
    let refused = browser.post(app.url("/v1/sessions/tickets")).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);

    // The stream ends with the token.
    let revoked = app.client.delete(app.url("/v1/browser_tokens?user=anna")).send().await.unwrap();
    assert_eq!(revoked.status(), StatusCode::OK);
    let ended = async { while let Ok(Some(_)) = streams[1].response.chunk().await {} };
    timeout(Duration::from_secs(30), ended).await.expect("the stream is still open");
}
