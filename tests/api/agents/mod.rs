//! Agents: versions, access by tenants, and sessions that are created with an agent.

mod builtin;
mod operator_files;
mod sessions;
mod versions;

use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use crate::support::TestApp;

impl TestApp {
    fn put(&self, name: &str, profile: &Value) -> RequestBuilder {
        self.client.put(self.url(&format!("/v1/agents/{name}"))).json(profile)
    }
}

/// Creates an agent or its next version, and returns the version.
async fn put(app: &TestApp, name: &str, profile: Value) -> i64 {
    let response = app.put(name, &profile).send().await.unwrap();
    assert!(response.status().is_success(), "{}", response.text().await.unwrap());
    response.json::<Value>().await.unwrap()["version"].as_i64().unwrap()
}

async fn get(app: &TestApp, path: &str) -> Response {
    app.get(&format!("/v1/agents{path}")).send().await.unwrap()
}

async fn agent(app: &TestApp, path: &str) -> Value {
    let response = get(app, path).await;
    assert_eq!(response.status(), 200);
    response.json().await.unwrap()
}

/// Asserts that a session with this body is refused with one error, and returns the error.
async fn refused(app: &TestApp, body: Value) -> Value {
    let response = app.post("/v1/sessions").json(&body).send().await.unwrap();
    let problem = crate::support::problem(response, 422, "validation_failed").await;
    let mut errors = problem["errors"].clone();
    assert_eq!(errors.as_array().unwrap().len(), 1, "{errors}");
    errors[0].take()
}

/// An error of the member `agent`.
fn at_agent(message: &str) -> Value {
    json!({ "pointer": "/agent", "message": message })
}
