//! Browser tokens in the place of API keys.

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};

use super::chat::parsed;
use super::chunks::decision;
use super::{Chat, kinds, user};
use crate::support::{Setup, TestApp, asks, calls_as, client_bearing, keys_needed, replies, says};

async fn browser(app: &TestApp, body: Value) -> Client {
    let response = app.post("/v1/browser_tokens").json(&body).send().await.unwrap();
    let token: Value = response.json().await.unwrap();
    client_bearing(token["token"].as_str().unwrap())
}

async fn send(client: &Client, chat: &Chat<'_>, mut body: Value) -> (StatusCode, String) {
    body["id"] = chat.id.into();
    let response = client.post(chat.app.url("/ai-sdk/chat")).json(&body).send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}

/// The statuses of the history, the stream, the stop route and a new message.
async fn statuses(client: &Client, chat: &Chat<'_>, message_id: &str) -> [u16; 4] {
    let url = |rest: &str| chat.app.url(&chat.path(rest));
    let history = client.get(url("/messages")).send().await.unwrap().status();
    let stream = client.get(url("/stream")).send().await.unwrap().status();
    let stop = client.post(url("/stop")).send().await.unwrap().status();
    let message = json!({ "message": user(message_id, "Hi") });
    let posted = send(client, chat, message).await.0;
    [history, stream, stop, posted].map(|status| status.as_u16())
}

async fn create(app: &TestApp, external_id: &str, user: &str) -> Value {
    let body = json!({ "external_id": external_id, "user": user });
    let response = app.post("/v1/sessions").json(&body).send().await.unwrap();
    assert_eq!(response.status(), 201);
    response.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_uses_its_conversations_and_no_others() {
    let app = TestApp::start_with(replies(&[says("You said {{user}}.")]), keys_needed()).await;
    let own = Chat { app: &app, id: "anna-1" };
    let session = create(&app, own.id, "anna").await;
    create(&app, "ben-1", "ben").await;
    app.post("/v1/sessions").json(&json!({ "external_id": "nobody-1" })).send().await.unwrap();
    let all = ["read", "post", "decide", "cancel"];
    let of_user = browser(&app, json!({ "user": "anna", "scopes": all })).await;
    let target = json!({ "session_id": session["id"], "scopes": all });
    let of_session = browser(&app, target).await;
    for (client, id) in [(&of_user, "m1"), (&of_session, "m2")] {
        assert_eq!(statuses(client, &own, id).await, [200, 204, 200, 200]);
        for foreign in ["ben-1", "nobody-1", "unknown", "a%00b"] {
            let foreign = Chat { app: &app, id: foreign };
            assert_eq!(statuses(client, &foreign, id).await, [404; 4], "{}", foreign.id);
        }
    }
    // A browser creates no session.
    let page: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    assert_eq!(page["data"].as_array().unwrap().len(), 3);
    let second = Chat { app: &app, id: "anna-2" };
    create(&app, second.id, "anna").await;
    assert_eq!(statuses(&of_user, &second, "m1").await, [200, 204, 200, 200]);
    assert_eq!(statuses(&of_session, &second, "m2").await, [404; 4]);
    // The requests of two conversations do not continue each other.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_needs_the_scope_of_each_request() {
    let ring = calls_as(&[("toolu_1", "ring", json!({ "line": "one" }))]);
    let script = replies(&[ring, says("It said: {{results}}")]);
    let setup = Setup { needs_keys: true, ..asks() };
    let app = TestApp::start_with(script, setup).await;
    let chat = Chat::new(&app);
    create(&app, chat.id, "anna").await;
    let scoped =
        async |scopes: Value| browser(&app, json!({ "user": "anna", "scopes": scopes })).await;
    let reader = scoped(json!(["read"])).await;
    assert_eq!(statuses(&reader, &chat, "m1").await, [200, 204, 403, 403]);
    let poster = scoped(json!(["post"])).await;
    let (status, text) = send(&poster, &chat, json!({ "message": user("m1", "Ring") })).await;
    assert_eq!(status, 200);
    let asked = parsed(&text);
    let allow = decision(&asked, json!({ "approved": true }));
    assert_eq!(send(&poster, &chat, allow.clone()).await.0, 403);
    // It would cancel the run that waits.
    let next = json!({ "message": user("m2", "Hi") });
    assert_eq!(send(&poster, &chat, next).await.0, 403);
    let decider = scoped(json!(["decide"])).await;
    let (status, text) = send(&decider, &chat, allow).await;
    assert_eq!((status.as_u16(), kinds(&parsed(&text))[1]), (200, "tool-output-available"));
    // A fork has the budget of a new session.
    let edit = json!({ "message": user("m1", "Other"), "messageId": "m1" });
    let (status, text) = send(&poster, &chat, edit).await;
    assert!(status == 403 && text.contains("forbidden"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_of_a_request_answers_its_message_unless_a_browser_names_it() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), keys_needed()).await;
    let chat = Chat { app: &app, id: "anna-1" };
    create(&app, chat.id, "anna").await;
    let message = |id: &str| json!({ "message": user(id, "Hello"), "model": "claude-haiku-4-5" });
    chat.send(message("m1")).await;
    let scopes = json!({ "user": "anna", "scopes": ["read", "post"] });
    let client = browser(&app, scopes).await;
    assert_eq!(send(&client, &chat, message("m2")).await.0, StatusCode::OK);
    let models = [0, 1].map(|at| app.upstream().body(at)["model"].clone());
    assert_eq!(models, ["claude-haiku-4-5", "simulator"]);
}
