//! Which tools there are, and what sessions say of their own.

use serde_json::{Value, json};
use twostep::domain::permission::PermissionMode;
use twostep::tools::policy::OperatorPolicy;

use crate::support::{Setup, TestApp, assert_refused, invalid, replies, says};

async fn catalogue(app: &TestApp) -> Vec<Value> {
    let page: Value = app.get("/v1/tools").send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().clone()
}

async fn resource(app: &TestApp, body: Value) -> Value {
    app.post("/v1/sessions").json(&body).send().await.unwrap().json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_catalogue_says_what_the_model_is_told_and_what_calls_may_do() {
    let app = TestApp::start(replies(&[])).await;
    let mut exit =
        catalogue(&app).await.into_iter().find(|tool| tool["name"] == "ExitPlanMode").unwrap();
    assert!(!exit["description"].take().as_str().unwrap().is_empty());
    assert_eq!(
        exit,
        json!({
            "name": "ExitPlanMode",
            "description": null,
            "input_schema": {
                "type": "object",
                "description": "The plan.",
                "properties": {
                    "plan": {
                        "type": "string",
                        "description": "What you would do, step by step, for the user to \
                            approve. Markdown is supported.",
                    },
                },
                "required": ["plan"],
                "additionalProperties": false,
            },
            "class": "pure",
            "timing": "immediate",
            "deadline_ms": 2000,
            "parallel": false,
            "default": true,
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_lists_the_tools_that_are_enabled_or_those_it_named() {
    let app = TestApp::start(replies(&[])).await;
    let names: Vec<Value> =
        catalogue(&app).await.into_iter().map(|mut tool| tool["name"].take()).collect();
    assert_eq!(resource(&app, json!({})).await["tools"], json!(names));
    let two = json!({ "tools": ["TodoWrite", "read_file"] });
    assert_eq!(resource(&app, two).await["tools"], json!(["read_file", "TodoWrite"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_shows_its_mode_and_its_rules() {
    let operator =
        OperatorPolicy { default_mode: PermissionMode::Default, ..OperatorPolicy::default() };
    let setup = Setup { permissions: Some(operator), ..Setup::default() };
    let app = TestApp::start_with(replies(&[]), setup).await;
    let rules = json!([
        { "tool": "Bash", "input": { "command": "git status" }, "decision": "allow" },
        { "tool": "Write", "decision": "deny", "reason": "Not here." },
    ]);
    let shown = |session: Value| {
        ["permission_mode", "permissions", "remembered"].map(|member| session[member].clone())
    };
    let body = json!({ "permission_mode": "plan", "permissions": rules });
    assert_eq!(shown(resource(&app, body).await), [json!("plan"), rules, json!([])]);
    let nothing = resource(&app, json!({})).await;
    assert_eq!(shown(nothing), [json!("default"), json!([]), json!([])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_may_name_the_mode_that_the_operator_has_not_enabled() {
    let setup = Setup { permissions: Some(OperatorPolicy::default()), ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup).await;
    let session = app.session().await;
    let request = app.post("/v1/sessions").json(&json!({ "permission_mode": "bypass" }));
    assert_refused(&session, request, invalid("/permission_mode")).await;
}
