//! Several model providers at a time: each session uses the one that its model names.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::model::{Capabilities, Known, Models, ProviderModels};
use twostep::domain::price::Price;
use twostep::domain::provider::Provider;
use twostep::model::NamedServer;
use twostep::service::ModelRules;

use crate::support::model_server::NamedProvider;
use crate::support::{Setup, TestApp, calls, problem, replies, says};

const MODEL: &str = "gateway/simulator/small";

/// What the service knows of the models of the default provider and of `gateway`.
fn rules(gateway: Provider) -> ModelRules {
    let small = Capabilities { max_tokens: Some(300), ..Capabilities::default() };
    let known: Known = [("simulator/small".to_owned(), small)].into();
    let named = [("gateway".to_owned(), ProviderModels::new(gateway, known))].into();
    let default = ProviderModels::new(Provider::Anthropic, Known::new());
    ModelRules { models: Arc::new(Models::of(default, named)), ..ModelRules::default() }
}

fn setup(servers: &[&NamedServer]) -> Setup {
    let protocol = servers.first().map(|server| server.server.provider());
    Setup {
        model_rules: rules(protocol.unwrap_or_default()),
        providers: servers.iter().map(|server| (*server).clone()).collect(),
        prices: [(MODEL.to_owned(), Price { output: 1_000_000, ..Price::default() })].into(),
        slots: Some(2),
        ..Setup::default()
    }
}

async fn start(script: Value, gateway: &NamedProvider) -> TestApp {
    TestApp::start_with(script, setup(&[&gateway.server])).await
}

/// Waits until the metrics have this line.
async fn has_metric(app: &TestApp, line: &str) {
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    loop {
        let text = app.get("/metrics").send().await.unwrap().text().await.unwrap();
        if text.lines().any(|found| found == line) {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{line} is missing: {text}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_uses_the_provider_that_its_model_names() {
    for (protocol, path, form) in [
        (Provider::Anthropic, "/v1/messages", ""),
        (Provider::OpenAi, "/v1/chat/completions", "chat_completions"),
        (Provider::OpenAiResponses, "/v1/responses", "responses"),
    ] {
        let script = replies(&[calls("read_file", json!({ "path": "a.txt" })), says("Gateway.")]);
        let gateway = NamedProvider::start("gateway", protocol, &script).await;
        let app = start(replies(&[says("Default.")]), &gateway).await;
        app.write_file("a.txt", "hello");
        let default = app.session().await;
        assert_eq!(default.ask("Hi").await["output_text"], "Default.");
        let session = app.session_with(json!({ "model": MODEL })).await;
        let run = session.ask("What does a.txt say?").await;
        assert_eq!(run["output_text"], "Gateway.");
        assert!(run["cost"].as_i64().unwrap() > 0, "the price of the full name: {run}");

        let upstream = gateway.upstream();
        assert_eq!((app.upstream().len(), upstream.len()), (1, 2));
        assert_eq!(upstream.requests[0].path, path);
        assert_eq!(upstream.body(0)["model"], "simulator/small");
        assert_eq!(session.read().await["model"], MODEL);
        let run = run["id"].as_str().unwrap();
        let path = session.path(&format!("/runs/{run}/requests/2"));
        let record: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
        assert_eq!(record["model"], MODEL);
        for name in ["chat_completions", "responses"] {
            assert_eq!(record["form"].get(name).is_some(), name == form);
        }
        assert_eq!(record["body"], upstream.body(1), "regenerated with the provider's own name");
        let line =
            r#"twostep_model_provider_requests_total{provider="gateway",outcome="replied"} 2"#;
        has_metric(&app, line).await;
        let line =
            r#"twostep_model_provider_requests_total{provider="default",outcome="replied"} 1"#;
        has_metric(&app, line).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_checked_by_what_is_known_of_the_model_at_its_provider() {
    let gateway = NamedProvider::start("gateway", Provider::OpenAi, &replies(&[])).await;
    let app = start(replies(&[]), &gateway).await;
    let limited = app.session_with(json!({ "model": MODEL })).await.read().await;
    assert_eq!(limited["max_tokens"], 300);
    let same_name = app.session_with(json!({ "model": "small" })).await.read().await;
    assert_eq!(same_name["max_tokens"], 1000);
    // Chat Completions has no top_k.
    let top_k = |model: &str| json!({ "model": model, "top_k": 5 });
    let response = app.post("/v1/sessions").json(&top_k(MODEL)).send().await.unwrap();
    assert_eq!(problem(response, 422, "validation_failed").await["errors"][0]["pointer"], "/top_k");
    app.session_with(top_k("small")).await;

    let models: Value = app.get("/v1/models").send().await.unwrap().json().await.unwrap();
    let listed =
        models["data"].as_array().unwrap().iter().find(|model| model["id"] == MODEL).unwrap();
    assert_eq!(listed["provider"], "openai");
    assert!(listed["lacks"].as_array().unwrap().contains(&json!("server_tools")));
    assert_eq!(listed["price"]["output"], 1_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_is_not_configured_is_refused_with_the_names_of_those_that_are() {
    let gateway = NamedProvider::start("gateway", Provider::OpenAi, &replies(&[])).await;
    let app = start(replies(&[]), &gateway).await;
    let sub_agent = json!({ "name": "scout", "description": "Looks.", "model": "gatewya/x" });
    for (body, pointer) in [
        (json!({ "model": "gatewya/x" }), "/model"),
        (
            json!({ "tools": ["read_file", "Task"], "sub_agents": [sub_agent] }),
            "/sub_agents/0/model",
        ),
    ] {
        let response = app.post("/v1/sessions").json(&body).send().await.unwrap();
        let refused = problem(response, 422, "validation_failed").await;
        assert_eq!(refused["errors"][0]["pointer"], pointer);
        let message = refused["errors"][0]["message"].as_str().unwrap();
        assert!(message.contains("\"gatewya\"") && message.contains("gateway,"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_may_use_another_provider_than_its_session() {
    let gateway =
        NamedProvider::start("gateway", Provider::OpenAi, &replies(&[says("Found.")])).await;
    let task = json!({ "description": "Look", "prompt": "Look.", "subagent_type": "scout" });
    let script = replies(&[calls("Task", task), says("{{result.0}}")]);
    let app = start(script, &gateway).await;
    let session = app
        .session_with(json!({ "tools": ["read_file", "Task"], "sub_agents": [
            { "name": "scout", "description": "Looks.", "model": MODEL, "max_tokens": 100 } ] }))
        .await;
    assert_eq!(session.ask("Go").await["output_text"], "Found.");
    assert_eq!((app.upstream().len(), gateway.upstream().len()), (2, 1));
    assert_eq!(gateway.upstream().body(0)["model"], "simulator/small");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_process_without_the_provider_fails_and_the_session_continues_where_it_is() {
    let gateway =
        NamedProvider::start("gateway", Provider::OpenAi, &replies(&[says("Yes.")])).await;
    let app = start(replies(&[]), &gateway).await;
    let session = app.session_with(json!({ "model": MODEL })).await;
    assert_eq!(session.ask("One").await["output_text"], "Yes.");
    let id = session.id.clone();

    let app = app.restarted(replies(&[])).await;
    let session = app.existing_session(&id);
    let run = session.ask("Two").await;
    assert_eq!(run["status"], "failed");
    assert_eq!(run["error"]["type"], "model_request_failed_error");
    assert_eq!(run["error"]["reason"], "unknown_provider");
    let message = run["error"]["message"].as_str().unwrap();
    assert!(message.contains("\"gateway\"") && message.contains("--model-providers"), "{message}");
    assert_eq!(app.upstream().len(), 0, "the default provider is not asked instead");

    let app = app.restarted_with(replies(&[]), setup(&[&gateway.server])).await;
    let session = app.existing_session(&id);
    assert_eq!(session.ask("Three").await["output_text"], "Yes.");
    assert_eq!(gateway.upstream().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_fails_does_not_delay_the_same_model_of_another() {
    let soon = json!({ "status": 529, "headers": { "retry-after-ms": "5" } });
    let gateway = NamedProvider::start("gateway", Provider::Anthropic, &replies(&[soon])).await;
    let app = start(replies(&[says("Me too.")]), &gateway).await;
    let dead = json!({ "model": "gateway/claude-sonnet-4-6" });
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let session = app.session_with(dead.clone()).await;
        waiting.push((session.post(json!({ "content": "Hi" })).await, session));
    }
    has_metric(&app, r#"twostep_model_provider_circuit_open{provider="gateway"} 1"#).await;
    let healthy = app.session_with(json!({ "model": "claude-sonnet-4-6" })).await;
    assert_eq!(healthy.ask("Hi").await["output_text"], "Me too.");
    has_metric(&app, r#"twostep_model_provider_circuit_open{provider="default"} 0"#).await;
    has_metric(&app, "twostep_model_circuit_open 1").await;
    gateway.play(&replies(&[says("At last.")]));
    for (run, session) in &waiting {
        assert!(session.settled(run).await["status"].is_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_requests_to_a_provider_with_a_limit_wait_for_each_other_and_hold_no_slot() {
    let script = json!({ "conversations": [
        { "when": "hang", "replies": [{ "content": [{ "type": "text", "text": "Well" }],
                                        "hang_after": 4 }] },
        { "replies": [says("You said {{user}}.")] },
    ], "otherwise": "refuse" });
    let mut gateway = NamedProvider::start("gateway", Provider::OpenAi, &script).await;
    gateway.server.max_requests = Some(1);
    let app = start(replies(&[says("Default.")]), &gateway).await;
    let session = || app.session_with(json!({ "model": MODEL }));
    let (first, second, third) = (session().await, session().await, session().await);
    let hanging = first.post(json!({ "content": "hang" })).await;
    first.reached(&hanging, "span.model_request_start").await;
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while gateway.upstream().len() == 0 {
        assert!(tokio::time::Instant::now() < deadline, "the first request was not sent");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (two, three) = (
        second.post(json!({ "content": "two" })).await,
        third.post(json!({ "content": "three" })).await,
    );
    // One of two slots is held by the first run. The other providers are not limited.
    for _ in 0..3 {
        assert_eq!(app.session().await.ask("Hi").await["output_text"], "Default.");
    }
    assert_eq!(gateway.upstream().len(), 1);
    first.cancel(&hanging).await;
    assert_eq!(second.settled(&two).await["output_text"], "You said two.");
    assert_eq!(third.settled(&three).await["output_text"], "You said three.");
    assert_eq!(gateway.upstream().len(), 3);
}
