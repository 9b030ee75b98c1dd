//! Concurrent requests of several tenants over the same connections.

use std::collections::BTreeSet;

use futures::StreamExt as _;
use futures::stream::iter;
use reqwest::Client;
use serde_json::{Value, json};
use twostep::domain::api_key::Scope;

use crate::support::{TestApp, client_with, keys_needed, replies, says};

/// The number of requests.
const REQUESTS: usize = 2_000;
/// The number of concurrent requests.
const CONCURRENCY: usize = 64;

/// A tenant with two sessions.
struct Tenant {
    client: Client,
    sessions: BTreeSet<String>,
}

impl Tenant {
    async fn new(app: &TestApp, name: &str) -> Self {
        let id = app.database.tenant(name).await;
        let client = client_with(Some(&app.database.key(id, Scope::Write).await));
        let mut sessions = BTreeSet::new();
        for title in ["first", "second"] {
            let body = json!({ "title": title, "metadata": { "of": name } });
            let post = client.post(app.url("/v1/sessions")).json(&body).send().await.unwrap();
            let session: Value = post.json().await.unwrap();
            let id = session["id"].as_str().unwrap().to_owned();
            let ask = client.post(app.url(&format!("/v1/sessions/{id}/messages")));
            let ask = ask.header("prefer", "wait=60").json(&json!({ "content": "Hello" }));
            assert_eq!(ask.send().await.unwrap().status(), 200);
            sessions.insert(id);
        }
        Self { client, sessions }
    }

    async fn get(&self, app: &TestApp, path: &str) -> (u16, Value) {
        let response = self.client.get(app.url(path)).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// The sessions to which the items of a list belong.
    async fn owners(&self, app: &TestApp, path: &str, member: &str) -> BTreeSet<String> {
        let (status, page) = self.get(app, path).await;
        assert_eq!(status, 200, "{path}: {page}");
        let data = page["data"].as_array().unwrap();
        data.iter().map(|item| item[member].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_return_no_row_of_another_tenant() {
    let app = TestApp::start_with(replies(&[says("Hello.")]), keys_needed()).await;
    let tenants = [
        Tenant::new(&app, "one").await,
        Tenant::new(&app, "two").await,
        Tenant::new(&app, "three").await,
    ];
    iter(0..REQUESTS)
        .for_each_concurrent(CONCURRENCY, async |n| {
            let (tenant, other) = (&tenants[n % 3], &tenants[(n + 1) % 3]);
            let own = tenant.sessions.iter().nth(n / 3 % 2).unwrap();
            let foreign = other.sessions.first().unwrap();
            let path = |rest: &str| format!("/v1/sessions/{own}{rest}");
            match n / 6 % 6 {
                0 => assert_eq!(tenant.owners(&app, "/v1/sessions", "id").await, tenant.sessions),
                1 => {
                    let found = tenant.owners(&app, "/v1/sessions?q=hello", "id").await;
                    assert_eq!(found, tenant.sessions);
                }
                2 => {
                    let found = tenant.owners(&app, &path("/messages"), "session_id").await;
                    assert_eq!(found, BTreeSet::from([own.clone()]));
                }
                3 => {
                    let found = tenant.owners(&app, &path("/events"), "session_id").await;
                    assert_eq!(found, BTreeSet::from([own.clone()]));
                }
                4 => assert_eq!(tenant.get(&app, &path("")).await.0, 200),
                _ => {
                    let path = format!("/v1/sessions/{foreign}");
                    assert_eq!(tenant.get(&app, &path).await.0, 404);
                }
            }
        })
        .await;
}
