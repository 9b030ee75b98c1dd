//! The sub-agents that a session defines.

use serde_json::{Value, json};

use super::{script, sub_agent_sessions};
use crate::support::{TestApp, calls, problem, says};

fn scout() -> Value {
    json!({
        "name": "scout",
        "description": "looks things up in files.",
        "system": "You are a scout.",
        "model": "simulator-small",
        "max_tokens": 77,
        "tools": ["read_file"],
    })
}

/// A reply that starts this sub-agent.
fn starts(agent: &str) -> Value {
    let prompt = "count the ducks";
    calls("Task", json!({ "description": "d", "prompt": prompt, "subagent_type": agent }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sub_agent_has_the_settings_that_its_session_defines() {
    let script = script(&[
        ("all birds", &[starts("scout"), says("Seven birds.")]),
        ("ducks", &[says("Three.")]),
    ]);
    let app = TestApp::start(script).await;
    let body = json!({ "tools": ["Task", "read_file", "write_file"], "sub_agents": [scout()] });
    let session = app.session_with(body).await;
    assert_eq!(session.ask("Count all birds").await["output_text"], "Seven birds.");
    let request = app.upstream().body(1);
    let values = json!([request["model"], request["max_tokens"], request["tools"][0]["name"]]);
    assert_eq!(values, json!(["simulator-small", 77, "read_file"]));
    assert_eq!(request["tools"].as_array().unwrap().len(), 1);
    assert!(request["system"].to_string().contains("You are a scout."));

    assert_eq!(session.read().await["sub_agents"], json!([scout()]));
    let [sub_agent] = sub_agent_sessions(&session).await.try_into().ok().unwrap();
    assert_eq!(sub_agent.read().await["model"], "simulator-small");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_task_tool_lists_the_sub_agents_to_the_model() {
    let app = TestApp::start(script(&[("hello", &[says("Hello.")])])).await;
    let body = json!({ "tools": ["Task", "read_file"], "sub_agents": [scout()] });
    app.session_with(body).await.ask("hello").await;
    let request = app.upstream().body(0);
    let task = request["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "Task");
    let task = task.unwrap();
    let text = task["description"].as_str().unwrap();
    let agents = "The sub-agents:\n- general: does any task, with the tools that you have.\n- scout: \
        looks things up in files.";
    assert!(text.ends_with(agents), "{text}");
    let kind = &task["input_schema"]["properties"]["subagent_type"];
    assert_eq!(kind["enum"], json!(["general", "scout"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_sub_agent_is_refused_with_its_pointer() {
    let app = TestApp::start(json!({})).await;
    let refused = async |tools: Value, agents: Value| {
        let body = json!({ "tools": tools, "sub_agents": agents });
        let response = app.post("/v1/sessions").json(&body).send().await.unwrap();
        let problem = problem(response, 422, "validation_failed").await;
        let errors = problem["errors"].as_array().unwrap().clone();
        errors.iter().map(|error| error["pointer"].clone()).collect::<Vec<_>>()
    };
    let with = |member: &str, value: Value| {
        let mut agent = scout();
        agent[member] = value;
        json!([agent])
    };
    let tools = json!(["Task", "read_file"]);
    for (agents, pointer) in [
        (with("name", json!("Scout")), "/sub_agents/0/name"),
        (with("description", json!(" ")), "/sub_agents/0/description"),
        (with("system", json!("")), "/sub_agents/0/system"),
        (with("max_tokens", json!(0)), "/sub_agents/0/max_tokens"),
        (with("tools", json!(["write_file"])), "/sub_agents/0/tools/0"),
        (with("tools", json!(["Task"])), "/sub_agents/0/tools/0"),
        (with("limits", json!({ "tokens": 0 })), "/sub_agents/0/limits/tokens"),
        (with("limits", json!({ "cost": 5 })), "/sub_agents/0/model"),
        (json!([scout(), scout()]), "/sub_agents/1/name"),
    ] {
        assert_eq!(refused(tools.clone(), agents.clone()).await, [pointer], "{agents}");
    }
    assert_eq!(refused(json!(["read_file"]), json!([scout()])).await, ["/sub_agents"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_imported_session_has_the_sub_agents_of_the_exported_session() {
    let app = TestApp::start(script(&[("hello", &[says("Hello.")])])).await;
    let body = json!({ "tools": ["Task", "read_file"], "sub_agents": [scout()] });
    let session = app.session_with(body).await;
    session.ask("hello").await;
    let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
    let import = app.post("/v1/sessions/import").header("content-type", "application/jsonl");
    let imported: Value = import.body(export).send().await.unwrap().json().await.unwrap();
    let imported = app.existing_session(imported["id"].as_str().unwrap());
    assert_eq!(imported.read().await["sub_agents"], session.read().await["sub_agents"]);
}
