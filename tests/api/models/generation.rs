//! Parameters of sampling, and members that clients add to model requests: of agents, sessions and
//! messages.

use std::sync::Arc;

use serde_json::{Value, json};
use twostep::domain::model::{Known, Models};
use twostep::domain::provider::Provider;
use twostep::service::ModelRules;

use crate::support::{Setup, TestApp, replies, says};

async fn app() -> TestApp {
    TestApp::start(replies(&[says("Yes.")])).await
}

/// The members of the last request that these tests set.
fn sent(app: &TestApp) -> Value {
    let upstream = app.upstream();
    let body = upstream.body(upstream.len() - 1);
    let names = [
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "stop_sequences",
        "stop",
        "speed",
        "output_config",
    ];
    let members =
        names.iter().filter_map(|name| Some(((*name).to_owned(), body.get(name)?.clone())));
    Value::Object(members.collect())
}

/// The pointers of the errors of a refused request.
async fn pointers(app: &TestApp, path: &str, body: &Value) -> Vec<String> {
    let response = app.post(path).json(body).send().await.unwrap();
    assert_eq!(response.status(), 422, "{body}");
    let problem: Value = response.json().await.unwrap();
    let errors = problem["errors"].as_array().unwrap();
    errors.iter().map(|error| error["pointer"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_an_agent_a_session_and_a_message_are_sent_in_this_order_of_precedence() {
    let app = app().await;
    let profile = json!({ "temperature": 0.25, "top_k": 7, "betas": ["task-budgets-2026-03-13"],
                          "extra_body": { "speed": "standard" } });
    let agent = app.client.put(app.url("/v1/agents/cool")).json(&profile).send().await.unwrap();
    assert!(agent.status().is_success(), "{}", agent.text().await.unwrap());
    let session = app.session_with(json!({ "agent": "cool", "temperature": 0.5 })).await;
    let shown = session.read().await;
    let extra = json!({ "speed": "standard" });
    assert_eq!((&shown["temperature"], &shown["top_k"]), (&json!(0.5), &json!(7)));
    assert_eq!(shown["extra_body"], extra);
    session.ask("Hello").await;
    let own = json!({ "temperature": 0.5, "top_k": 7, "speed": "standard" });
    assert_eq!(sent(&app), own);

    let budget =
        json!({ "output_config": { "task_budget": { "type": "tokens", "total": 20_000 } } });
    let message = json!({ "content": "Hello", "top_p": 0.9, "stop_sequences": ["END"],
                          "extra_body": budget });
    let run = session.ask_with(message).await;
    let expected = json!({ "temperature": 0.5, "top_p": 0.9, "top_k": 7, "stop_sequences": ["END"],
                           "output_config": budget["output_config"] });
    assert_eq!(sent(&app), expected);
    // The record of the request shows what was sent.
    let path = session.path(&format!("/runs/{}/requests/1", run["id"].as_str().unwrap()));
    let shown: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    assert_eq!(shown["body"], app.upstream().body(1));

    session.ask("Hello").await;
    assert_eq!(sent(&app), own, "the parameters of a message are those of its run only");
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_model_does_not_accept_is_refused_with_a_pointer() {
    let app = app().await;
    for (body, expected) in [
        (
            json!({ "model": "claude-sonnet-5-5", "temperature": 0.5, "top_p": 0.9, "top_k": 3 }),
            vec!["/temperature", "/top_p", "/top_k"],
        ),
        (json!({ "model": "claude-sonnet-4-6", "temperature": 0.5, "top_p": 0.9 }), vec!["/top_p"]),
        (json!({ "temperature": 1.5, "seed": 1 }), vec!["/seed", "/temperature"]),
        (
            json!({ "thinking": { "type": "adaptive" }, "temperature": 0.5, "top_p": 0.9, "top_k": 3 }),
            vec!["/temperature", "/top_p", "/top_k"],
        ),
        (
            json!({ "temperature": -1, "top_p": 0, "top_k": 0 }),
            vec!["/temperature", "/top_p", "/top_k"],
        ),
        (
            json!({ "extra_body": { "speed": "fast", "messages": [] } }),
            vec!["/extra_body/messages"],
        ),
        (
            json!({ "extra_body": { "output_config": { "effort": "low" } } }),
            vec!["/extra_body/output_config/effort"],
        ),
        (json!({ "extra_body": { "a": "x".repeat(20_000) } }), vec!["/extra_body"]),
        (json!({ "extra_body": 1 }), vec!["/extra_body"]),
    ] {
        assert_eq!(pointers(&app, "/v1/sessions", &body).await, expected, "{body}");
    }
    let thinks = json!({ "thinking": { "type": "adaptive" } });
    let session = app.session_with(thinks).await;
    for (member, value, pointer) in [
        ("temperature", json!(0.5), "/temperature"),
        ("seed", json!(1), "/seed"),
        ("stop_sequences", json!([" "]), "/stop_sequences"),
        ("extra_body", json!({ "container": "c" }), "/extra_body/container"),
    ] {
        let message = json!({ "content": "Hello", member: value });
        let path = session.path("/messages");
        assert_eq!(pointers(&app, &path, &message).await, [pointer], "{message}");
    }
    assert_eq!(app.upstream().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_completions_gets_the_seed_and_added_members() {
    let models = Arc::new(Models::new(Provider::OpenAi, Known::default()));
    let model_rules = ModelRules { models, ..ModelRules::default() };
    let setup = Setup { provider: Provider::OpenAi, model_rules, ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup).await;
    assert_eq!(pointers(&app, "/v1/sessions", &json!({ "top_k": 3 })).await, ["/top_k"]);
    let settings = json!({ "seed": 42, "extra_body": { "verbosity": "low" } });
    let session = app.session_with(settings).await;
    session.ask_with(json!({ "content": "Hello", "temperature": 1.5, "top_p": 0.5 })).await;
    assert_eq!(sent(&app), json!({ "temperature": 1.5, "top_p": 0.5, "seed": 42 }));
    assert_eq!(app.upstream().body(0)["verbosity"], "low");
    app.end_refused(&[]);
}
