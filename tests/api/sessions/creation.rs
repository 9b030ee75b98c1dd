//! A session is created once for each key, whichever process is asked.

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

/// The status, whether the answer is said to be an earlier one's, the path and the id.
async fn made(response: Response) -> (u16, bool, String, String) {
    let status = response.status().as_u16();
    let is_replayed = response.headers().get("idempotency-replayed").is_some();
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let session: Value = response.json().await.unwrap();
    (status, is_replayed, location, session["id"].as_str().unwrap().to_owned())
}

/// How many sessions the list has.
async fn count(app: &TestApp) -> usize {
    let list = app.get("/v1/sessions?limit=200").send().await.unwrap();
    list.json::<Value>().await.unwrap()["data"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_gets_the_same_session_as_it_is_by_then() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let body = json!({ "title": "Plans", "metadata": { "a": 1, "b": 2 } });
    let first = made(create(&app.client, &app, "k", &body).await).await;
    let path = format!("/v1/sessions/{}", first.3);
    assert_eq!(first, (201, false, path.clone(), first.3.clone()));
    let renamed = app.client.patch(app.url(&path)).json(&json!({ "title": "Plots" }));
    assert_eq!(renamed.send().await.unwrap().status(), 200);

    // The same, in other words.
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

    let other = create(&app.client, &app, "k", &json!({ "title": "Plots" })).await;
    problem(other, 422, "idempotency_key_reused").await;
    // Nothing is made by a request that is refused, so that the key is still free.
    let odd = create(&app.client, &app, "free", &json!({ "model": "" })).await;
    problem(odd, 422, "validation_failed").await;
    assert!(!made(create(&app.client, &app, "free", &json!({})).await).await.1);
    assert_eq!(count(&app).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_none_is_refused() {
    let app = TestApp::start(json!({})).await;
    for key in [String::new(), "k".repeat(256)] {
        let odd = create(&app.client, &app, &key, &json!({})).await;
        problem(odd, 422, "validation_failed").await;
    }
    assert_eq!(count(&app).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_at_two_services_make_one_session() {
    let app = TestApp::start(json!({})).await;
    let other = app.second_service(Setup::default()).await;
    let posts = (0..40).map(|number| {
        let is_here = number % 2 == 0;
        let post = if is_here { app.post("/v1/sessions") } else { other.post("/v1/sessions") };
        let post = post.header("idempotency-key", "k");
        // No body is an empty one.
        let post = if number % 4 < 2 { post } else { post.json(&json!({})) };
        async { made(post.send().await.unwrap()).await }
    });
    let answers = join_all(posts).await;
    let new = answers.iter().filter(|(_, is_replayed, ..)| !is_replayed).count();
    let ids: BTreeSet<_> = answers.iter().map(|(status, _, _, id)| (status, id)).collect();
    assert_eq!((new, ids.len(), count(&app).await), (1, 1, 1));
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_names_a_session_for_a_day_and_as_long_as_there_is_one() {
    let app = TestApp::start(json!({})).await;
    let body = json!({ "title": "Plans" });
    let first = made(create(&app.client, &app, "k", &body).await).await.3;
    let pool = app.database.pool(1);
    let ages = |age: &'static str| {
        let made_at = "UPDATE sessions SET created_at = now() - $1::interval WHERE id = $2::uuid";
        sqlx::query(made_at).bind(age).bind(first.strip_prefix("ses_").unwrap()).execute(&pool)
    };
    ages("23 hours").await.unwrap();
    let again = made(create(&app.client, &app, "k", &body).await).await;
    assert_eq!((again.1, &again.3), (true, &first));
    ages("24 hours").await.unwrap();
    let second = made(create(&app.client, &app, "k", &json!({ "title": "Others" })).await).await;
    assert_eq!((second.1, second.3 == first), (false, false));

    let deleted = app.client.delete(app.url(&second.2)).send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    let third = made(create(&app.client, &app, "k", &body).await).await;
    assert_eq!((third.1, count(&app).await), (false, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_one_tenant_is_nothing_to_another() {
    let app = TestApp::start_with(json!({}), keys_needed()).await;
    let tenant = app.database.tenant("acme").await;
    let foreign = client_with(Some(&app.database.key(tenant, Scope::Write).await));
    let mut ids = BTreeSet::new();
    for client in [&app.client, &foreign] {
        for is_replayed in [false, true] {
            let session = made(create(client, &app, "k", &json!({})).await).await;
            assert_eq!(session.1, is_replayed);
            ids.insert(session.3);
        }
    }
    assert_eq!(ids.len(), 2);
}
