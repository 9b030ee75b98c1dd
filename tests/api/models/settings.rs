//! Settings for the model of a session: pinned, sent unchanged, and refused if the model would
//! refuse them.

use serde_json::{Value, json};
use twostep::service::ModelRules;

use crate::support::{Setup, TestApp, assert_refused, invalid, problem, replies, says};

async fn app() -> TestApp {
    TestApp::start(replies(&[says("Yes."), says("Yes.")])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn model_settings_are_shown_and_sent_with_every_request() {
    let app = app().await;
    let asked = json!({
        "system": [{ "type": "text", "text": "Be brief." }, { "type": "text", "text": "é\n" }],
        "thinking": { "type": "adaptive" },
        "effort": "xhigh",
        "max_tokens": 4000,
        "stop_sequences": ["END"],
        "model_metadata": { "user_id": "u-1" },
        "service_tier": "standard_only",
        "betas": ["context-management-2025-06-27", "task-budgets-2026-03-13"],
    });
    let session = app.session_with(asked.clone()).await;
    let shown = session.read().await;
    for (member, value) in asked.as_object().unwrap() {
        assert_eq!(shown[member], *value, "{member}");
    }
    session.ask("One").await;
    session.ask("Two").await;
    let upstream = app.upstream();
    assert_eq!(upstream.len(), 2);
    for index in [0, 1] {
        let sent = upstream.body(index);
        let betas = &upstream.requests[index].headers["anthropic-beta"];
        assert_eq!(betas, "context-management-2025-06-27,task-budgets-2026-03-13");
        let mut system = asked["system"].clone();
        system[1]["cache_control"] = json!({ "type": "ephemeral" });
        let expected = json!({
            "system": system, "thinking": asked["thinking"],
            "output_config": { "effort": "xhigh" }, "max_tokens": 4000,
            "stop_sequences": ["END"], "metadata": { "user_id": "u-1" },
            "service_tier": "standard_only",
        });
        for (member, value) in expected.as_object().unwrap() {
            assert_eq!(sent[member], *value, "{member}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unset_settings_are_not_sent() {
    let app = app().await;
    let session = app.session_with(json!({ "tools": [], "system": "" })).await;
    session.ask("One").await;
    let upstream = app.upstream();
    let body = upstream.body(0);
    let mut sent: Vec<&String> = body.as_object().unwrap().keys().collect();
    sent.sort();
    assert_eq!(sent, ["cache_control", "max_tokens", "messages", "model", "stream"]);
    assert_eq!(upstream.requests[0].headers.get("anthropic-beta"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_settings_are_refused_with_a_pointer() {
    let app = app().await;
    let session = app.session().await;
    let text = |text: &str| json!({ "type": "text", "text": text });
    let marked = json!({ "type": "text", "text": "a", "cache_control": { "type": "ephemeral" } });
    let user = |id: Value| json!({ "model_metadata": { "user_id": id } });
    for (body, pointer) in [
        (json!({ "system": 1 }), "/system"),
        (json!({ "system": [] }), "/system"),
        (json!({ "system": [text("a"), text(" ")] }), "/system/1/text"),
        (json!({ "system": [marked] }), "/system/0/cache_control"),
        (json!({ "system": [{ "type": "image", "text": "a" }] }), "/system/0/type"),
        (json!({ "system": [["text", "a"]] }), "/system/0"),
        (json!({ "effort": "huge" }), "/effort"),
        (json!({ "effort": 1 }), "/effort"),
        (json!({ "service_tier": "priority" }), "/service_tier"),
        (json!({ "model_metadata": { "name": "Ada" } }), "/model_metadata/name"),
        (json!({ "model_metadata": "u-1" }), "/model_metadata"),
        (user(json!("")), "/model_metadata/user_id"),
        (user(json!("a\u{0}")), "/model_metadata/user_id"),
        (user(json!("u".repeat(257))), "/model_metadata/user_id"),
        (json!({ "betas": "a" }), "/betas"),
        (json!({ "betas": ["a-1", "b,c"] }), "/betas/1"),
        (json!({ "betas": ["a\r\nx-api-key: k"] }), "/betas/0"),
        (json!({ "betas": ["a-1", "a-1"] }), "/betas/1"),
        (json!({ "betas": vec!["a"; 17] }), "/betas"),
    ] {
        let request = app.post("/v1/sessions").json(&body);
        assert_refused(&session, request, invalid(pointer)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_the_model_refuses_are_refused_before_any_request() {
    let app = app().await;
    let thinking = |kind: &str| json!({ "type": kind });
    let budget = json!({ "type": "enabled", "budget_tokens": 1000 });
    for (model, body, pointer) in [
        ("claude-opus-5-5", json!({ "thinking": thinking("disabled") }), "/thinking/type"),
        ("claude-sonnet-5", json!({ "thinking": thinking("between_tools") }), "/thinking/type"),
        ("claude-haiku-4-5", json!({ "thinking": budget }), "/thinking/budget_tokens"),
        (
            "claude-opus-5",
            json!({ "thinking": thinking("disabled"), "effort": "max" }),
            "/thinking/type",
        ),
        ("claude-haiku-4-5", json!({ "effort": "low" }), "/effort"),
        ("claude-opus-4-5-20251101", json!({ "effort": "max" }), "/effort"),
        ("claude-opus-4-5", json!({ "max_tokens": 100_000 }), "/max_tokens"),
    ] {
        let mut body = body;
        body["model"] = model.into();
        let response = app.post("/v1/sessions").json(&body).send().await.unwrap();
        let problem = problem(response, 422, "validation_failed").await;
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}");
        // The capabilities of another model are unknown.
        body["model"] = "a-local-model".into();
        let response = app.post("/v1/sessions").json(&body).send().await.unwrap();
        assert_eq!(response.status(), 201, "{body}");
    }
    assert_eq!(app.upstream().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_limits_beta_features() {
    let allowed = "task-budgets-2026-03-13";
    let betas = Some(vec![allowed.to_owned()]);
    let model_rules = ModelRules { betas, ..ModelRules::default() };
    let script = replies(&[says("Yes.")]);
    let app = TestApp::start_with(script, Setup { model_rules, ..Setup::default() }).await;
    let session = app.session_with(json!({ "betas": [allowed] })).await;
    let request =
        app.post("/v1/sessions").json(&json!({ "betas": [allowed, "fast-mode-2026-02-01"] }));
    assert_refused(&session, request, invalid("/betas/1")).await;
}
