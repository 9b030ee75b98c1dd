//! Idempotent creation: one session per `Idempotency-Key`, over all processes.

use std::collections::BTreeSet;

use futures::future::join_all;
use reqwest::{Client, Response};
use serde_json::{Value, json};
use twostep::domain::api_key::Scope;

use crate::support::{Setup, TestApp, client_with, keys_needed, problem, replies, says};

async fn create(client: &Client, app: &TestApp, key: &str, body: &Value) -> Response {
    let post = client.post(app.url("/v1/sessions")).header("idempotency-key", key).json(body);
    post.send().await.unwrap()
}

/// The status, whether the response is marked as replayed, the path and the id.
async fn created(response: Response) -> (u16, bool, String, String) {
    let status = response.status().as_u16();
    let is_replayed = response.headers().get("idempotency-replayed").is_some();
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let session: Value = response.json().await.unwrap();
    (status, is_replayed, location, session["id"].as_str().unwrap().to_owned())
}

/// The number of listed sessions.
async fn count(app: &TestApp) -> usize {
    let list = app.get("/v1/sessions?limit=200").send().await.unwrap();
    list.json::<Value>().await.unwrap()["data"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_returns_the_current_state_of_the_same_session() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let body = json!({ "title": "Plans", "metadata": { "a": 1, "b": 2 } });
    let first = created(create(&app.client, &app, "k", &body).await).await;
    let path = format!("/v1/sessions/{}", first.3);
    assert_eq!(first, (201, false, path.clone(), first.3.clone()));
    let renamed = app.client.patch(app.url(&path)).json(&json!({ "title": "Plots" }));
    assert_eq!(renamed.send().await.unwrap().status(), 200);

    // An equal body with another order of members.
    let again = json!({ "metadata": { "b": 2, "a": 1 }, "title": "Plans" });
    let again = create(&app.client, &app, "k", &again).await;
    let version = again.headers()["etag"].clone();
    let session: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    assert_eq!(version, format!("\"v{}\"", session["last_seq"]));
    assert_eq!(
        (again.status().as_u16(), &again.headers()["idempotency-replayed"]),
        (201, &"true".parse().unwrap())
    );
    let again: Value = again.json().await.unwrap();
    assert_eq!((&again, &again["title"]), (&session, &json!("Plots")));

    let different = create(&app.client, &app, "k", &json!({ "title": "Plots" })).await;
    problem(different, 422, "idempotency_key_reused").await;
    // A refused request creates no session, so its key can still be used.
    let refused = create(&app.client, &app, "free", &json!({ "model": "" })).await;
    problem(refused, 422, "validation_failed").await;
    assert!(!created(create(&app.client, &app, "free", &json!({})).await).await.1);
    assert_eq!(count(&app).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_or_too_long_key_is_refused() {
    let app = TestApp::start(json!({})).await;
    for key in [String::new(), "k".repeat(256)] {
        let refused = create(&app.client, &app, &key, &json!({})).await;
        problem(refused, 422, "validation_failed").await;
    }
    assert_eq!(count(&app).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_to_two_services_create_one_session() {
    let app = TestApp::start(json!({})).await;
    let other = app.second_service(Setup::default()).await;
    let posts = (0..40).map(|number| {
        let is_here = number % 2 == 0;
        let post = if is_here { app.post("/v1/sessions") } else { other.post("/v1/sessions") };
        let post = post.header("idempotency-key", "k");
        // A missing body equals an empty object.
        let post = if number % 4 < 2 { post } else { post.json(&json!({})) };
        async { created(post.send().await.unwrap()).await }
    });
    let responses = join_all(posts).await;
    let new = responses.iter().filter(|(_, is_replayed, ..)| !is_replayed).count();
    let ids: BTreeSet<_> = responses.iter().map(|(status, _, _, id)| (status, id)).collect();
    assert_eq!((new, ids.len(), count(&app).await), (1, 1, 1));
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_identifies_a_session_for_a_day_or_until_the_session_is_deleted() {
    let app = TestApp::start(json!({})).await;
    let body = json!({ "title": "Plans" });
    let first = created(create(&app.client, &app, "k", &body).await).await.3;
    let pool = app.database.pool(1);
    let set_age = |age: &'static str| {
        let update = "UPDATE sessions SET created_at = now() - $1::interval WHERE id = $2::uuid";
        sqlx::query(update).bind(age).bind(first.strip_prefix("ses_").unwrap()).execute(&pool)
    };
    set_age("23 hours").await.unwrap();
    let again = created(create(&app.client, &app, "k", &body).await).await;
    assert_eq!((again.1, &again.3), (true, &first));
    set_age("24 hours").await.unwrap();
    let second = created(create(&app.client, &app, "k", &json!({ "title": "Others" })).await).await;
    assert_eq!((second.1, second.3 == first), (false, false));

    let deleted = app.client.delete(app.url(&second.2)).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    let third = created(create(&app.client, &app, "k", &body).await).await;
    assert_eq!((third.1, count(&app).await), (false, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_of_two_tenants_creates_two_sessions() {
    let app = TestApp::start_with(json!({}), keys_needed()).await;
    let tenant = app.database.tenant("acme").await;
    let foreign = client_with(Some(&app.database.key(tenant, Scope::Write).await));
    let mut ids = BTreeSet::new();
    for client in [&app.client, &foreign] {
        for is_replayed in [false, true] {
            let session = created(create(client, &app, "k", &json!({})).await).await;
            assert_eq!(session.1, is_replayed);
            ids.insert(session.3);
        }
    }
    assert_eq!(ids.len(), 2);
}
