//! `GET /v1/tools`, and the tools, mode and rules in the session resource.

use serde_json::{Value, json};
use twostep::domain::permission::PermissionMode;
use twostep::tools::policy::OperatorPolicy;

use crate::support::{Setup, TestApp, assert_refused, invalid, replies, says};

async fn list_tools(app: &TestApp) -> Vec<Value> {
    let page: Value = app.get("/v1/tools").send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().clone()
}

async fn create_session(app: &TestApp, body: Value) -> Value {
    app.post("/v1/sessions").json(&body).send().await.unwrap().json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_tools_has_the_texts_for_the_model_and_the_class_of_each_tool() {
    let app = TestApp::start(replies(&[])).await;
    let mut exit =
        list_tools(&app).await.into_iter().find(|tool| tool["name"] == "ExitPlanMode").unwrap();
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
                        "description": "The steps of the plan, for the user to approve. Markdown \
                            is supported.",
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
async fn a_session_lists_the_enabled_tools_or_the_tools_that_its_request_named() {
    let app = TestApp::start(replies(&[])).await;
    let names: Vec<Value> =
        list_tools(&app).await.into_iter().map(|mut tool| tool["name"].take()).collect();
    assert_eq!(create_session(&app, json!({})).await["tools"], json!(names));
    let two = json!({ "tools": ["TodoWrite", "read_file"] });
    assert_eq!(create_session(&app, two).await["tools"], json!(["read_file", "TodoWrite"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_shows_its_permission_mode_and_its_rules() {
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
    assert_eq!(shown(create_session(&app, body).await), [json!("plan"), rules, json!([])]);
    let defaults = create_session(&app, json!({})).await;
    assert_eq!(shown(defaults), [json!("default"), json!([]), json!([])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bypass_mode_is_refused_unless_the_operator_enables_it() {
    let setup = Setup { permissions: Some(OperatorPolicy::default()), ..Setup::default() };
    let app = TestApp::start_with(replies(&[says("Yes.")]), setup).await;
    let session = app.session().await;
    let request = app.post("/v1/sessions").json(&json!({ "permission_mode": "bypass" }));
    assert_refused(&session, request, invalid("/permission_mode")).await;
}
