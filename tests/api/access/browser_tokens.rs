//! Browser tokens: what the browser of an end user can do with one, and what it cannot.

use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;
use twostep::domain::run_options::OnBusy;

use super::every_route::{routes, start as start_with_waiting_call, status, waiting_run};
use super::{REVOCATION_TIME, start};
use crate::support::{
    EventStream, Session, Setup, TestApp, calls, client_bearing, client_with, keys_needed, problem,
    replies, says,
};

const ALL: [&str; 4] = ["read", "post", "decide", "cancel"];

async fn create(app: &TestApp, body: Value) -> Value {
    let response = app.post("/v1/browser_tokens").json(&body).send().await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(response.headers()["cache-control"], "private, no-store");
    response.json().await.unwrap()
}

async fn browser(app: &TestApp, body: Value) -> Client {
    client_bearing(create(app, body).await["token"].as_str().unwrap())
}

async fn get(client: &Client, app: &TestApp, path: &str) -> Value {
    let response = client.get(app.url(path)).send().await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    response.json().await.unwrap()
}

async fn post(client: &Client, session: &Session<'_>, rest: &str, body: Value) -> StatusCode {
    status(client.post(session.app.url(&session.path(rest))).json(&body)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_session_tries_every_route_and_reaches_only_those_for_browsers() {
    let app = start_with_waiting_call(keys_needed()).await;
    let session = app.session().await;
    let ids = waiting_run(&session).await;
    let other = app.session().await;
    let token = json!({ "session_id": session.id, "scopes": ALL });
    let browser = browser(&app, token).await;

    let mut reached = Vec::new();
    for route in routes().iter().filter(|route| !route.is_open) {
        let own = route.request(&browser, &app, &ids).send().await.unwrap();
        if own.status() == 403 {
            // The refusals of these adapters have formats of their own.
            if !route.is_of_managed_agents() && !route.is_openai() {
                problem(own, 403, "forbidden").await;
            }
            continue;
        }
        reached.push(route.line());
        if route.line().contains("{session_id}") {
            let foreign = route.request(&browser, &app, &ids.of_session(&other.id));
            problem(foreign.send().await.unwrap(), 404, "session_not_found").await;
        }
    }
    reached.sort_unstable();
    assert_eq!(
        reached,
        [
            "DELETE /v1/sessions/{session_id}/messages/{message_id}/feedback",
            "GET /ai-sdk/chat/{chat_id}/messages",
            "GET /ai-sdk/chat/{chat_id}/stream",
            "GET /v1/info",
            "GET /v1/sessions/{session_id}",
            "GET /v1/sessions/{session_id}/approvals",
            "GET /v1/sessions/{session_id}/events",
            "GET /v1/sessions/{session_id}/events/stream",
            "GET /v1/sessions/{session_id}/files/{file_id}/content",
            "GET /v1/sessions/{session_id}/messages",
            "GET /v1/sessions/{session_id}/runs",
            "GET /v1/sessions/{session_id}/runs/{run_id}",
            "GET /v1/sessions/{session_id}/runs/{run_id}/explain",
            "GET /v1/sessions/{session_id}/runs/{run_id}/stream",
            "GET /v1/sessions/{session_id}/todos",
            "POST /ag-ui",
            "POST /ag-ui/connect",
            "POST /ai-sdk/chat",
            "POST /ai-sdk/chat/{chat_id}/stop",
            "POST /v1/sessions/{session_id}/approvals/{tool_use_id}",
            "POST /v1/sessions/{session_id}/cancel",
            "POST /v1/sessions/{session_id}/files",
            "POST /v1/sessions/{session_id}/messages",
            "POST /v1/sessions/{session_id}/runs/{run_id}/cancel",
            "POST /v1/sessions/{session_id}/runs/{run_id}/retry",
            "POST /v1/sessions/{session_id}/tickets",
            "POST /v1/sessions/{session_id}/tool_results",
            "PUT /v1/sessions/{session_id}/messages/{message_id}/feedback",
        ]
    );
    assert_eq!(other.history().await, [] as [Value; 0]);
    stop_runs(&browser, &session).await;
}

async fn stop_runs(browser: &Client, session: &Session<'_>) {
    let runs = get(browser, session.app, &session.path("/runs")).await;
    for run in runs["data"].as_array().unwrap() {
        session.cancel(run).await;
        session.settled(run).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_user_sees_the_sessions_of_this_user_alone() {
    let app = start().await;
    let own = app
        .session_with(
            json!({ "user": "anna", "system": "Be brief.", "metadata": { "plan": "free" } }),
        )
        .await;
    let later = browser(&app, json!({ "user": "anna", "scopes": ["read", "post"] })).await;
    let other = app.session_with(json!({ "user": "ben" })).await;
    let without_user = app.session().await;
    let second = app.session_with(json!({ "user": "anna" })).await;

    let ids = async |path| {
        let list = get(&later, &app, path).await;
        let data = list["data"].as_array().unwrap().clone();
        data.iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids("/v1/sessions").await, [second.id.clone(), own.id.clone()]);
    assert_eq!(ids("/v1/sessions?user=anna&limit=1").await, std::slice::from_ref(&second.id));
    let foreign = later.get(app.url("/v1/sessions?user=ben")).send().await.unwrap();
    problem(foreign, 403, "forbidden").await;
    for foreign in [&other, &without_user] {
        let read = later.get(app.url(&foreign.path(""))).send().await.unwrap();
        problem(read, 404, "session_not_found").await;
    }

    let seen = get(&later, &app, &own.path("")).await;
    assert_eq!((&seen["system"], &seen["truncated"]), (&json!(""), &json!(["system"])));
    assert_eq!(seen["metadata"], json!({}));
    // A fork of the back end belongs to the same user.
    let fork = app.post(&own.path("/forks")).json(&json!({})).send().await.unwrap();
    let fork: Value = fork.json().await.unwrap();
    let fork = app.existing_session(fork["id"].as_str().unwrap());
    assert_eq!(get(&later, &app, &fork.path("")).await["user"], "anna");
    assert_eq!(post(&later, &own, "/forks", json!({})).await, 403);
    assert_eq!(post(&later, &second, "/messages", json!({ "content": "Hi" })).await, 202);

    let only_one = browser(&app, json!({ "session_id": own.id, "scopes": ALL })).await;
    assert_eq!(status(only_one.get(app.url("/v1/sessions"))).await, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_session_includes_the_sessions_of_its_sub_agents() {
    let task = json!({ "description": "Count", "prompt": "Count the ducks." });
    let parent = [calls("Task", task), says("Two birds.")];
    let script = json!({
        "conversations": [
            { "when": "all birds", "replies": parent },
            { "when": "ducks", "replies": [says("Two.")] },
        ],
        "otherwise": "refuse",
    });
    let app = TestApp::start_with(script, keys_needed()).await;
    let parent = app.session_with(json!({ "tools": ["Task"], "user": "anna" })).await;
    let other = app.session().await;
    parent.ask("Count all birds").await;
    let children = app.get(&format!("/v1/sessions?parent={}", parent.id)).send().await.unwrap();
    let children: Value = children.json().await.unwrap();
    let child = app.existing_session(children["data"][0]["id"].as_str().unwrap());
    for target in [json!({ "session_id": parent.id }), json!({ "user": "anna" })] {
        let mut token = target;
        token["scopes"] = json!(["read"]);
        let browser = browser(&app, token).await;
        assert_eq!(get(&browser, &app, &child.path("")).await["parent"]["session_id"], parent.id);
        assert_eq!(status(browser.get(app.url(&other.path("")))).await, 404);
    }
    let browser = browser(&app, json!({ "session_id": child.id, "scopes": ["read"] })).await;
    assert_eq!(status(browser.get(app.url(&parent.path("")))).await, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_scope_allows_its_own_requests_and_no_others() {
    let app = start_with_waiting_call(keys_needed()).await;
    let session = app.session().await;
    waiting_run(&session).await;
    let run = json!({ "id": session.events().await[0]["run_id"] });
    let cancel = format!("/runs/{}/cancel", run["id"].as_str().unwrap());
    for (scope, expected) in [
        ("read", [true, false, false, false]),
        ("post", [false, true, false, false]),
        ("decide", [false, false, true, false]),
        ("cancel", [false, false, false, true]),
    ] {
        let client = browser(&app, json!({ "session_id": session.id, "scopes": [scope] })).await;
        let messages = client.get(app.url(&session.path("/messages")));
        // Requests without effect: an unknown call, and a body that is refused after the scope.
        let answers = [
            status(messages).await,
            post(&client, &session, "/messages", json!({ "content": [] })).await,
            post(&client, &session, "/approvals/toolu_01other", json!({ "decision": "deny" }))
                .await,
            post(&client, &session, &cancel.replace("run_", "run_x"), json!({})).await,
        ];
        assert_eq!(answers.map(|status| status != 403), expected, "{scope}: {answers:?}");
    }
    let decider = browser(&app, json!({ "session_id": session.id, "scopes": ["decide"] })).await;
    let allowed = json!({ "decision": "allow" });
    assert_eq!(post(&decider, &session, "/approvals/toolu_01ring", allowed).await, 202);
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_cannot_change_limits_and_permissions_with_a_message() {
    let app = start().await;
    let session = app.session().await;
    let client = browser(&app, json!({ "session_id": session.id, "scopes": ["post"] })).await;
    for member in [
        json!({ "permission_mode": "accept_edits" }),
        json!({ "limits": { "rounds": 1000 } }),
        json!({ "on_busy": "interrupt" }),
    ] {
        let mut body = json!({ "content": "Hi" });
        body.as_object_mut().unwrap().extend(member.as_object().unwrap().clone());
        let refused = client.post(app.url(&session.path("/messages"))).json(&body);
        problem(refused.send().await.unwrap(), 403, "forbidden").await;
    }
    assert_eq!(session.history().await, [] as [Value; 0]);
    assert_eq!(session.ask("Hi").await["output_text"], "Hello.");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_cannot_cancel_cannot_interrupt_by_default() {
    let setup = Setup { on_busy: OnBusy::Interrupt, ..keys_needed() };
    let app = TestApp::start_with(replies(&[says("Hello.")]), setup).await;
    let session = app.session().await;
    let client = browser(&app, json!({ "session_id": session.id, "scopes": ["post"] })).await;
    assert_eq!(post(&client, &session, "/messages", json!({ "content": "Hi" })).await, 403);
    let queued = json!({ "content": "Hi", "on_busy": "queue" });
    assert_eq!(post(&client, &session, "/messages", queued).await, 202);
    app.has_settled("completed", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_of_a_browser_opens_its_stream_until_the_token_is_revoked() {
    let app = start().await;
    let session = app.session_with(json!({ "user": "anna" })).await;
    let token = create(&app, json!({ "user": "anna", "scopes": ["read"] })).await;
    let browser = client_bearing(token["token"].as_str().unwrap());
    let ticket = browser.post(app.url(&session.path("/tickets"))).send().await.unwrap();
    assert_eq!(ticket.status(), 201);
    let ticket: Value = ticket.json().await.unwrap();
    let url = ticket["stream_url"].as_str().unwrap();
    let mut stream = EventStream::new(app.get_as(None, url).send().await.unwrap());
    session.ask("Hi").await;
    stream.until("session.status_idle").await;

    create(&app, json!({ "session_id": session.id, "scopes": ["read"] })).await;
    create(&app, json!({ "user": "ben", "scopes": ["read"] })).await;
    let revoked = app.client.delete(app.url("/v1/browser_tokens?user=anna")).send().await.unwrap();
    assert_eq!(revoked.json::<Value>().await.unwrap(), json!({ "revoked": 2 }));
    assert!(stream.try_next().await.is_err(), "the stream ended as if it were complete");
    assert_refused_soon(&app, &browser, &session).await;
    let id = token["id"].as_str().unwrap();
    let again = app.post(&format!("/v1/browser_tokens/{id}/renew")).send().await.unwrap();
    problem(again, 404, "browser_token_not_found").await;
}

async fn assert_refused_soon(app: &TestApp, browser: &Client, session: &Session<'_>) {
    let begun = Instant::now();
    while status(browser.get(app.url(&session.path("")))).await != 401 {
        assert!(begun.elapsed() < REVOCATION_TIME * 2, "the token is still accepted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_with_its_time_its_key_and_its_session() {
    let app = start().await;
    let session = app.session().await;
    let body = json!({ "session_id": session.id, "scopes": ["read"], "expires_in": 60 });
    let [short, of_key, of_session] = [
        create(&app, body.clone()).await,
        create(&app, body.clone()).await,
        create(&app, body.clone()).await,
    ];
    let expiry = |token: &Value| token["expires_at"].as_str().unwrap().parse::<jiff::Timestamp>();
    let path = format!("/v1/browser_tokens/{}", of_session["id"].as_str().unwrap());
    let renew = json!({ "expires_in": 3600 });
    let renewed = app.post(&format!("{path}/renew")).json(&renew).send().await.unwrap();
    let renewed: Value = renewed.json().await.unwrap();
    let gained = (expiry(&renewed).unwrap() - expiry(&of_session).unwrap()).get_seconds();
    assert!((3500..=3600).contains(&gained), "{gained}");

    let execute = async |change: &'static str, id: &Value| {
        let id = id.as_str().unwrap().rsplit_once('_').unwrap().1.to_owned();
        sqlx::query(change).bind(id).execute(&app.database.pool(1)).await.unwrap();
    };
    let client = |token: &Value| client_bearing(token["token"].as_str().unwrap());
    assert_eq!(status(client(&short).get(app.url(&session.path("")))).await, 200);
    let expired =
        "UPDATE browser_tokens SET expires_at = now() WHERE replace(id::text, '-', '') = $1";
    execute(expired, &short["id"]).await;
    assert_refused_soon(&app, &client(&short), &session).await;

    let key = app.database.key(TenantId::DEFAULT, Scope::Write).await;
    let made = client_with(Some(&key)).post(app.url("/v1/browser_tokens")).json(&body);
    let made: Value = made.send().await.unwrap().json().await.unwrap();
    assert_eq!(status(client(&made).get(app.url(&session.path("")))).await, 200);
    app.database.set(&key, "revoked_at = now()").await;
    assert_refused_soon(&app, &client(&made), &session).await;

    assert_eq!(status(client(&of_key).get(app.url(&session.path("")))).await, 200);
    let deleted = app.client.delete(app.url(&session.path(""))).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    assert_refused_soon(&app, &client(&of_key), &session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_request_for_a_token_names_each_problem() {
    let app = start().await;
    let session = app.session().await;
    for (body, pointers) in [
        (json!({ "scopes": ["read"] }), &[""][..]),
        (json!({ "scopes": ["read"], "user": "anna", "session_id": session.id }), &["/user"]),
        (json!({ "scopes": [], "user": "" }), &["/user", "/scopes"]),
        (
            json!({ "scopes": ["write"], "user": "anna", "expires_in": 59 }),
            &["/scopes/0", "/expires_in"],
        ),
        (json!({ "scopes": ["read"], "session_id": "ses_1" }), &["/session_id"]),
    ] {
        let refused = app.post("/v1/browser_tokens").json(&body).send().await.unwrap();
        let problem = problem(refused, 422, "validation_failed").await;
        let errors = problem["errors"].as_array().unwrap();
        let found: Vec<_> = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
        assert_eq!(found, pointers, "{body}");
    }
    let unknown = json!({ "scopes": ["read"], "session_id": format!("ses_{}", "0".repeat(32)) });
    let unknown = app.post("/v1/browser_tokens").json(&unknown).send().await.unwrap();
    problem(unknown, 404, "session_not_found").await;
    let reader = app.database.key(TenantId::DEFAULT, Scope::Read).await;
    let body = json!({ "user": "anna", "scopes": ["read"] });
    let refused = client_with(Some(&reader)).post(app.url("/v1/browser_tokens")).json(&body);
    problem(refused.send().await.unwrap(), 403, "forbidden").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_does_not_get_the_session_of_another_by_its_external_id() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let anna = json!({ "external_id": "chat-1", "user": "anna" });
    let created = app.post("/v1/sessions").json(&anna).send().await.unwrap();
    assert_eq!(created.status(), 201);
    assert_eq!(app.post("/v1/sessions").json(&anna).send().await.unwrap().status(), 200);
    let ben = json!({ "external_id": "chat-1", "user": "ben" });
    let refused = app.post("/v1/sessions").json(&ben).send().await.unwrap();
    problem(refused, 409, "external_id_taken").await;
    let list = app.get("/v1/sessions?user=anna").send().await.unwrap();
    assert_eq!(list.json::<Value>().await.unwrap()["data"].as_array().unwrap().len(), 1);
    let list = app.get("/v1/sessions?user=ben").send().await.unwrap();
    assert_eq!(list.json::<Value>().await.unwrap()["data"], json!([]));
}
