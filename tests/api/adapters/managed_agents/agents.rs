//! Agents.

use serde_json::{Value, json};

use super::client::id;
use super::{Sdk, refused};
use crate::support::{Setup, TestApp, replies};

const TOOLSET: &str = "agent_toolset_20260401";

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_created_read_changed_and_archived() {
    let app = TestApp::start(replies(&[])).await;
    let sdk = Sdk::new(&app);
    let body = json!({
        "name": "Coding Assistant", "model": { "id": "simulator", "effort": "low" },
        "description": "Writes code.", "system": "Be brief.", "metadata": { "team": "north" },
        "tools": [
            { "type": TOOLSET, "configs": [
                { "name": "write", "permission_policy": { "type": "always_ask" } },
                { "name": "grep", "enabled": false },
                { "name": "glob", "permission_policy": { "type": "auto" } },
            ] },
            { "type": "mcp_toolset", "mcp_server_name": "twostep", "configs": [{ "name": "get_time" }] },
            { "type": "custom", "name": "lookup", "description": "Looks up.",
              "input_schema": { "type": "object" } },
        ],
        "mcp_servers": [], "skills": [], "multiagent": null,
    });
    let created = sdk.create("/agents", body).await;
    let agent = id(&created);
    assert!(agent.starts_with("coding-assistant-"), "{agent}");
    assert_eq!(created["type"], "agent");
    assert_eq!((&created["name"], &created["version"]), (&json!("Coding Assistant"), &json!(1)));
    assert_eq!(created["model"], json!({ "id": "simulator", "effort": { "type": "low" } }));
    let tools = created["tools"].as_array().unwrap();
    let policies: Vec<(&str, &str)> =
        tools[0]["configs"].as_array().unwrap().iter().map(policy).collect();
    // The service has neither Bash nor web tools.
    let expected = [
        ("edit", "always_allow"),
        ("read", "always_allow"),
        ("write", "always_ask"),
        ("glob", "auto"),
    ];
    assert_eq!(policies, expected);
    assert_eq!(policy(&tools[1]["configs"][0]), ("get_time", "auto"));
    assert_eq!((&tools[2]["type"], &tools[2]["name"]), (&json!("custom"), &json!("lookup")));
    assert_eq!(sdk.read(&format!("/agents/{agent}")).await, created);

    // It is an agent of the service.
    let own: Value =
        app.get(&format!("/v1/agents/{agent}")).send().await.unwrap().json().await.unwrap();
    assert_eq!(own["profile"]["display_name"], "Coding Assistant");
    assert_eq!(own["profile"]["tools"][4], "get_time");

    let path = format!("/agents/{agent}");
    let change = json!({ "name": "Helper", "system": null, "metadata": { "team": null, "a": "b" },
                         "tools": [], "version": 1 });
    let changed = sdk.create(&path, change.clone()).await;
    assert_eq!((&changed["version"], &changed["name"]), (&json!(2), &json!("Helper")));
    assert_eq!((&changed["system"], &changed["metadata"]), (&Value::Null, &json!({ "a": "b" })));
    assert_eq!((&changed["tools"], &changed["description"]), (&json!([]), &json!("Writes code.")));
    assert_eq!(changed["created_at"], created["created_at"]);
    let (status, error) = refused(sdk.post(&path, &change)).await;
    assert_eq!((status, &error["details"]["error_code"]), (412, &json!("version_mismatch")));
    let first = sdk.read(&format!("{path}?version=1")).await;
    assert_eq!(first["name"], "Coding Assistant");

    let archived = sdk.create(&format!("{path}/archive"), json!({})).await;
    assert!(archived["archived_at"].is_string());
    let (status, error) = refused(sdk.get(&path)).await;
    assert_eq!((status, &error["type"]), (404, &json!("not_found_error")));
}

fn policy(config: &Value) -> (&str, &str) {
    (config["name"].as_str().unwrap(), config["permission_policy"]["type"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_agents_are_in_the_list_and_cannot_be_changed() {
    let app = TestApp::start(replies(&[])).await;
    let sdk = Sdk::new(&app);
    let own = sdk.agent(json!([])).await;
    let ids: Vec<String> = sdk.list("/agents?limit=2").await.iter().map(id).collect();
    for name in [own.as_str(), "coder", "general", "weather"] {
        assert!(ids.iter().any(|id| id == name), "{ids:?}");
    }
    let general = sdk.read("/agents/general").await;
    assert_eq!((&general["id"], &general["archived_at"]), (&json!("general"), &Value::Null));
    for (path, body) in [("", json!({ "name": "Mine" })), ("/archive", json!({}))] {
        let (status, error) = refused(sdk.post(&format!("/agents/general{path}"), &body)).await;
        assert_eq!((status, &error["type"]), (409, &json!("conflict_error")));
        assert_eq!(error["details"]["error_code"], "agent_name_taken");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_service_does_not_have_is_refused_with_a_pointer() {
    let app = TestApp::start_with(replies(&[]), Setup::default()).await;
    let sdk = Sdk::new(&app);
    let server = json!({ "name": "s", "type": "url", "url": "https://example.com/" });
    let toolset = |configs: Value| json!([{ "type": TOOLSET, "configs": configs }]);
    for (member, value, pointer) in [
        ("mcp_servers", json!([server]), "/mcp_servers"),
        ("skills", json!([{ "type": "anthropic", "skill_id": "xlsx" }]), "/skills"),
        ("multiagent", json!({ "type": "coordinator", "agents": [] }), "/multiagent"),
        ("execution_identity", json!({ "type": "aws_role" }), "/execution_identity/type"),
        ("model", json!({ "id": "simulator", "speed": "fast" }), "/model/speed"),
        ("model", json!(7), "/model"),
        ("name", json!(""), "/name"),
        ("tools", toolset(json!([{ "name": "bash", "enabled": true }])), "/tools/0/configs/0/name"),
        ("tools", toolset(json!([{ "name": "fly" }])), "/tools/0/configs/0/name"),
        (
            "tools",
            toolset(json!([{ "name": "web_fetch", "allowed_domains": ["a.example"] }])),
            "/tools/0/configs/0/allowed_domains",
        ),
        (
            "tools",
            json!([{ "type": "mcp_toolset", "mcp_server_name": "github" }]),
            "/tools/0/mcp_server_name",
        ),
        ("wings", json!(2), "/wings"),
    ] {
        let mut body = json!({ "name": "Desk", "model": "simulator" });
        body[member] = value;
        let (status, error) = refused(sdk.post("/agents", &body)).await;
        assert_eq!((status, &error["type"]), (400, &json!("invalid_request_error")), "{member}");
        assert_eq!(error["details"]["errors"][0]["pointer"], pointer, "{error}");
    }
    for missing in ["name", "model"] {
        let mut body = json!({ "name": "Desk", "model": "simulator" });
        body.as_object_mut().unwrap().remove(missing);
        let (status, error) = refused(sdk.post("/agents", &body)).await;
        assert_eq!(status, 400);
        assert_eq!(error["details"]["errors"][0]["pointer"], format!("/{missing}"));
    }
}
