//! External ids: clients find or create the session of a conversation whose id they have made.

use std::collections::BTreeSet;

use futures::future::join_all;
use reqwest::{Client, Response, StatusCode};
use serde_json::{Value, json};
use twostep::domain::api_key::Scope;

use crate::support::{Setup, TestApp, client_with, keys_needed, problem, replies, says};

async fn find_or_create(client: &Client, app: &TestApp, body: &Value) -> (StatusCode, Value) {
    let response = client.post(app.url("/v1/sessions")).json(body).send().await.unwrap();
    assert!(response.headers().contains_key("location"), "{response:?}");
    (response.status(), response.json().await.unwrap())
}

async fn list(app: &TestApp, query: &str) -> Vec<Value> {
    let list = app.get(&format!("/v1/sessions?{query}")).send().await.unwrap();
    list.json::<Value>().await.unwrap()["data"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_known_external_id_returns_its_session_unchanged() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let (status, session) =
        find_or_create(&app.client, &app, &json!({ "external_id": "chat-1" })).await;
    assert_eq!((status, &session["external_id"]), (StatusCode::CREATED, &json!("chat-1")));
    let again = json!({ "external_id": "chat-1", "title": "Another title" });
    assert_eq!(find_or_create(&app.client, &app, &again).await, (StatusCode::OK, session.clone()));
    let (status, other) =
        find_or_create(&app.client, &app, &json!({ "external_id": "chat-2" })).await;
    assert_eq!(status, StatusCode::CREATED);

    assert_eq!(list(&app, "external_id=chat-2").await, [other]);
    assert_eq!(list(&app, "external_id=chat-3").await, [] as [Value; 0]);
    assert_eq!(list(&app, "limit=200").await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archived_session_is_found_by_its_external_id() {
    let app = TestApp::start(json!({})).await;
    let body = json!({ "external_id": "chat-1" });
    let (_, session) = find_or_create(&app.client, &app, &body).await;
    let path = app.url(&format!("/v1/sessions/{}", session["id"].as_str().unwrap()));
    let archived = app.client.patch(path).json(&json!({ "archived": true })).send().await.unwrap();
    let archived: Value = archived.json().await.unwrap();
    assert_eq!(find_or_create(&app.client, &app, &body).await, (StatusCode::OK, archived.clone()));
    for query in ["external_id=chat-1", "external_id=chat-1&archived=true"] {
        assert_eq!(list(&app, query).await, std::slice::from_ref(&archived), "{query}");
    }
    assert_eq!(list(&app, "external_id=chat-1&archived=false").await, [] as [Value; 0]);
    assert_eq!(list(&app, "limit=200").await, [] as [Value; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_id_is_free_again_when_its_session_is_deleted() {
    let app = TestApp::start(json!({})).await;
    let body = json!({ "external_id": "chat-1" });
    let (_, first) = find_or_create(&app.client, &app, &body).await;
    let path = format!("/v1/sessions/{}", first["id"].as_str().unwrap());
    let fork =
        app.post(&format!("{path}/forks")).json(&json!({ "after": 0 })).send().await.unwrap();
    let fork: Value = fork.json().await.unwrap();
    assert_eq!(fork.get("external_id"), None, "a fork is another conversation: {fork}");
    let deleted = app.client.delete(app.url(&format!("{path}?forks=delete"))).send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    let (status, second) = find_or_create(&app.client, &app, &body).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_ne!(first["id"], second["id"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_to_two_services_create_one_session_for_an_external_id() {
    let app = TestApp::start(json!({})).await;
    let other = app.second_service(Setup::default()).await;
    let posts = (0..40).map(|number| {
        let post =
            if number % 2 == 0 { app.post("/v1/sessions") } else { other.post("/v1/sessions") };
        let post = post.json(&json!({ "external_id": "chat-1" }));
        // Some of the requests have an idempotency key as well.
        let post = if number % 4 < 2 { post } else { post.header("idempotency-key", "k") };
        async { post.send().await.unwrap() }
    });
    let mut new = 0;
    let mut ids = BTreeSet::new();
    for response in join_all(posts).await {
        let is_replayed = response.headers().contains_key("idempotency-replayed");
        new += usize::from(response.status() == StatusCode::CREATED && !is_replayed);
        ids.insert(id_of(response).await);
    }
    assert_eq!((new, ids.len()), (1, 1));
    other.stop().await;
}

async fn id_of(response: Response) -> String {
    let session: Value = response.json().await.unwrap();
    session["id"].as_str().unwrap_or_else(|| panic!("{session}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_external_id_of_two_tenants_names_two_sessions() {
    let app = TestApp::start_with(json!({}), keys_needed()).await;
    let tenant = app.database.tenant("acme").await;
    let foreign = client_with(Some(&app.database.key(tenant, Scope::Write).await));
    let body = json!({ "external_id": "chat-1" });
    let (_, own) = find_or_create(&app.client, &app, &body).await;
    let (status, other) = find_or_create(&foreign, &app, &body).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_ne!(own["id"], other["id"]);
    assert_eq!(find_or_create(&foreign, &app, &body).await.1["id"], other["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_external_id_is_refused() {
    let app = TestApp::start(json!({})).await;
    for id in [String::new(), "x".repeat(256), "a\nb".to_owned(), "a\0b".to_owned()] {
        let refused =
            app.post("/v1/sessions").json(&json!({ "external_id": id })).send().await.unwrap();
        let refused = problem(refused, 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], "/external_id", "{id:?}");
    }
    for id in ["x".repeat(256), "a%00b".to_owned()] {
        let refused = app.get(&format!("/v1/sessions?external_id={id}")).send().await.unwrap();
        problem(refused, 400, "invalid_query").await;
    }
}
