//! The catalog of models and its refresh from the model server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::RawQuery;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;
use twostep::domain::model::{Capabilities, Models};
use twostep::domain::price::Price;
use twostep::domain::provider::Provider;
use twostep::model::anthropic::{Client, ClientConfig, Hosting, ModelListError};
use twostep::service::ModelRules;

use crate::support::{Setup, TestApp, problem, replies, says};

async fn listed(app: &TestApp) -> BTreeMap<String, Value> {
    let page: Value = app.get("/v1/models").send().await.unwrap().json().await.unwrap();
    assert_eq!(page["has_more"], false);
    let models = page["data"].as_array().unwrap();
    models.iter().map(|model| (model["id"].as_str().unwrap().to_owned(), model.clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_model_is_listed_with_capabilities_and_prices() {
    let price = Price { input: 5, output: 25, cache_write: 6, cache_read: 1, ..Price::default() };
    let prices = [("claude-opus-4-6".to_owned(), price)].into();
    let app = TestApp::start_with(replies(&[]), Setup { prices, ..Setup::default() }).await;
    let models = listed(&app).await;
    assert_eq!(
        models["claude-opus-4-6"],
        json!({
            "type": "model",
            "id": "claude-opus-4-6",
            "provider": "anthropic",
            "default": false,
            "capabilities": {
                "max_input_tokens": 1_000_000,
                "max_tokens": 128_000,
                "thinking": ["adaptive", "enabled", "disabled"],
                "effort": ["low", "medium", "high", "max"],
                "forced_tool_choice": true,
                "sampling": true,
                "temperature_with_top_p": false,
                "structured_outputs": true,
                "image_input": true,
                "pdf_input": true,
                "compaction": true,
                "tool_search": true,
                "min_cache_tokens": 4096,
            },
            "inputs": ["text", "image", "pdf"],
            "lacks": [],
            "price": { "input": 5, "output": 25, "cache_write": 6, "cache_read": 1 },
        })
    );
    // The default model is listed even if its capabilities are unknown.
    assert_eq!(
        models["simulator"],
        json!({
            "type": "model", "id": "simulator", "provider": "anthropic", "default": true,
            "capabilities": {}, "inputs": ["text"], "lacks": [],
        })
    );
    let lacks = json!(["compaction", "effort", "tool_calls_from_code"]);
    assert_eq!(models["claude-haiku-4-5"]["lacks"], lacks);
    assert_eq!(models["claude-opus-5-5"]["lacks"], json!(["forced_tool_choice", "sampling"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_limited_by_the_capabilities_that_the_operator_sets() {
    let forced = Capabilities { forced_tool_choice: Some(false), ..Capabilities::default() };
    let few = Capabilities { max_tokens: Some(100), ..forced };
    let known = [("simulator".to_owned(), few)].into();
    let models = Arc::new(Models::new(Provider::Anthropic, known));
    let model_rules = ModelRules { models, ..ModelRules::default() };
    let script = replies(&[says("never said")]);
    let app = TestApp::start_with(script, Setup { model_rules, ..Setup::default() }).await;
    let usual = app.session().await.read().await;
    assert_eq!(usual["max_tokens"], 100, "the default is lowered to the maximum of the model");
    let body = json!({ "max_tokens": 101 });
    let response = app.post("/v1/sessions").json(&body).send().await.unwrap();
    let refused = problem(response, 422, "validation_failed").await;
    assert_eq!(
        refused["errors"],
        json!([{ "pointer": "/max_tokens",
                 "message": "is more than 100, the most that simulator takes" }])
    );
    let session = app.session_with(json!({ "max_tokens": 100 })).await;
    let message = json!({ "content": "Hi", "tool_choice": { "type": "any" } });
    let response = session.message(&message).send().await.unwrap();
    let refused = problem(response, 422, "validation_failed").await;
    assert_eq!(refused["errors"][0]["pointer"], "/tool_choice");
    assert_eq!(app.upstream().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_capabilities_of_the_models_are_requested_from_the_server_at_the_start() {
    let setup = Setup { refresh_models: true, ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup).await;
    let deadline = Instant::now() + Duration::from_mins(1);
    let models = loop {
        let models = listed(&app).await;
        if models["simulator"].get("available").is_some() {
            break models;
        }
        assert!(Instant::now() < deadline, "no refresh from the server: {models:?}");
        sleep(Duration::from_millis(10)).await;
    };
    let simulator = json!({
        "max_input_tokens": 1_000_000,
        "max_tokens": 128_000,
        "thinking": ["adaptive", "enabled", "disabled", "between_tools"],
        "effort": ["low", "medium", "high", "xhigh", "max"],
        "structured_outputs": true,
        "image_input": true,
        "pdf_input": true,
        "context_management": true,
        "compaction": true,
    });
    assert_eq!(models["simulator"]["capabilities"], simulator);
    let available = ["simulator", "claude-sonnet-5-5", "claude-opus-4-8"]
        .map(|name| models[name]["available"].clone());
    assert_eq!(available, [json!(true), json!(true), json!(false)]);
    let run = app.session().await.ask("Hi").await;
    assert_eq!(run["output_text"], "Yes.");
}

/// A client of a server with these routes.
async fn client_of(server: Router) -> Client {
    // Fails if another test of this process has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/", listener.local_addr().unwrap());
    TaskTracker::new().spawn(axum::serve(listener, server).into_future());
    let config = ClientConfig {
        base_url: base_url.parse().unwrap(),
        api_key: None,
        auth_token: None,
        version: "2023-06-01".to_owned(),
        hosting: Hosting::Own,
        idle_timeout: Duration::from_secs(10),
    };
    Client::new(&config).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_models_is_read_page_by_page() {
    let page = |RawQuery(query): RawQuery| async move {
        let is_first = query.as_deref() == Some("limit=1000");
        assert!(is_first || query.as_deref() == Some("limit=1000&after_id=one"), "{query:?}");
        let id = if is_first { "one" } else { "two" };
        Json(json!({ "data": [{ "id": id }], "has_more": is_first, "last_id": id }))
    };
    let client = client_of(Router::new().route("/v1/models", get(page))).await;
    let names: Vec<String> = client.models().await.unwrap().into_keys().collect();
    assert_eq!(names, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_list_of_models_and_an_unreadable_one_are_different_errors() {
    let client = client_of(Router::new()).await;
    assert!(matches!(client.models().await, Err(ModelListError::Status(404))));
    let odd = Router::new().route("/v1/models", get(async || "models? which models?"));
    let client = client_of(odd).await;
    assert!(matches!(client.models().await, Err(ModelListError::Unreadable(_))));
}
