//! Strict tools, whose calls the model's server keeps valid.

use serde_json::{Value, json};
use twostep::domain::model::{Capabilities, Models};
use twostep::domain::provider::Provider;
use twostep::service::ModelRules;

use crate::support::{Setup, TestApp, problem, replies, says};

fn schema() -> Value {
    json!({ "type": "object", "properties": { "door": { "type": "integer" } },
            "required": ["door"], "additionalProperties": false })
}

fn door(name: &str) -> Value {
    json!({ "name": name, "input_schema": schema(), "client": true, "strict": true })
}

/// A service whose model `small` does not support structured outputs.
fn setup(provider: Provider) -> Setup {
    let small = Capabilities { structured_outputs: Some(false), ..Capabilities::default() };
    let known = [("small".to_owned(), small)].into_iter().collect();
    let models = Models::new(provider, known).into();
    Setup {
        provider,
        model_rules: ModelRules { models, ..ModelRules::default() },
        ..Setup::default()
    }
}

async fn refused(app: &TestApp, path: &str, body: &Value) -> (String, String) {
    let response = app.post(path).json(body).send().await.unwrap();
    let problem = problem(response, 422, "validation_failed").await;
    let text = |name: &str| problem["errors"][0][name].as_str().unwrap().to_owned();
    (text("pointer"), text("message"))
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_tools_are_sent_as_such_in_all_protocols() {
    for provider in [Provider::Anthropic, Provider::OpenAi, Provider::OpenAiResponses] {
        let app = TestApp::start_with(replies(&[says("Yes.")]), setup(provider)).await;
        let own = json!({ "name": "ExitPlanMode", "strict": true });
        let session = app.session_with(json!({ "tools": [own, "get_time", door("open")] })).await;
        let body = json!({ "content": "Go", "tools": [door("shut")] });
        assert_eq!(session.ask_with(body).await["output_text"], "Yes.");
        let sent = app.upstream().body(0)["tools"].clone();
        let strict = |tool: &Value| {
            let function = tool.get("function").unwrap_or(tool);
            (function["name"].as_str().unwrap().to_owned(), function["strict"] == true)
        };
        let sent: Vec<(String, bool)> = sent.as_array().unwrap().iter().map(strict).collect();
        let expected =
            [("get_time", false), ("ExitPlanMode", true), ("open", true), ("shut", true)];
        assert_eq!(sent, expected.map(|(name, is_strict)| (name.to_owned(), is_strict)));
        let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
        let header: Value = serde_json::from_str(export.lines().next().unwrap()).unwrap();
        let tools = &header["settings"]["tools"];
        assert_eq!(tools[1], json!({ "name": "ExitPlanMode", "strict": true }));
        assert_eq!(tools[2]["strict"], true);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_tools_that_no_grammar_expresses_are_refused() {
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup(Provider::Anthropic)).await;
    let mut open = door("open");
    open["input_schema"]["additionalProperties"] = json!(true);
    let of_tool =
        |part: &str| format!("has the tool open, which cannot be strict: /input_schema{part}");
    let many: Vec<Value> = (0..21).map(|n| door(&format!("t{n}"))).collect();
    let not_supported = "has strict tools, which are not supported by small";
    for (body, message) in [
        (json!({ "tools": [open] }), &*of_tool("/additionalProperties is not false")),
        (json!({ "tools": many }), "has 21 strict tools; at most 20 are allowed"),
        (json!({ "tools": [door("open")], "model": "small" }), not_supported),
    ] {
        let refused = refused(&app, "/v1/sessions", &body).await;
        assert_eq!(refused, ("/tools".to_owned(), message.to_owned()));
    }
    let session = app.session_with(json!({ "tools": many[..15] })).await;
    let message = json!({ "content": "Go", "tools": many[15..] });
    let refused_message = refused(&app, &session.path("/messages"), &message).await;
    assert_eq!(refused_message.1, "has 21 strict tools; at most 20 are allowed");
    let patch = app.client.patch(app.url(&session.path(""))).json(&json!({ "model": "small" }));
    let problem = problem(patch.send().await.unwrap(), 422, "validation_failed").await;
    assert_eq!(problem["errors"][0]["message"], not_supported);
}
