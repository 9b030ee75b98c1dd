//! Deferred tools of a server with many tools.

use serde_json::{Value, json};
use twostep::domain::permission::PermissionMode;
use twostep::tools::mcp::ServerSettings;
use twostep::tools::policy::OperatorPolicy;

use super::fake_server::{Fake, results};
use crate::support::{Session, Setup, TestApp, calls, replies, says};

/// A script in which the model searches for a tool of the server and calls it.
fn script() -> Value {
    replies(&[
        calls("ToolSearch", json!({ "query": "update the record of collection 50" })),
        calls("mcp__fake__update_record_50", json!({ "id": "a" })),
        says("It says: {{result.0}}"),
    ])
}

/// The bytes of the first request of a session, and the tokens that the model has counted.
async fn first_request(session: &Session<'_>, index: usize) -> (usize, u64) {
    let body = &session.app.upstream().requests[index].body;
    let count: Value = {
        let request = session
            .app
            .client
            .post(format!("{}/v1/messages/count_tokens", session.app.simulator.base_url()));
        let mut body: Value = serde_json::from_slice(body).unwrap();
        for member in ["max_tokens", "stream", "cache_control"] {
            body.as_object_mut().unwrap().remove(member);
        }
        let headers = request.header("anthropic-version", "2023-06-01").header("x-api-key", "key");
        headers.json(&body).send().await.unwrap().json().await.unwrap()
    };
    (body.len(), count["input_tokens"].as_u64().unwrap_or_else(|| panic!("{count}")))
}

/// Three servers with 100 tools each.
fn servers() -> [(Fake, ServerSettings); 3] {
    let only: Vec<String> = (1..=100).map(|n| format!("update_record_{n}")).collect();
    ["fake", "second", "third"].map(|name| {
        let fake = Fake::new().with("many", "100");
        let (name, only) = (name.to_owned(), Some(only.clone()));
        let settings = ServerSettings { name, only, ..fake.settings() };
        (fake, settings)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_deferred_tools_do_not_fill_the_prompt() {
    let servers = servers();
    let tool_servers = servers.iter().map(|(_, settings)| settings.clone()).collect();
    let setup = Setup { tool_servers, ..Setup::default() };
    let app = TestApp::start_with(script(), setup).await;
    let mut sizes = Vec::new();
    for (model, deferred) in [
        ("claude-sonnet-4-6", json!([])),
        ("claude-sonnet-4-6", json!(["mcp__*"])),
        ("simulator", json!(["mcp__*"])),
    ] {
        let index = app.upstream().len();
        let mut tools: Vec<Value> = Vec::new();
        for (_, server) in &servers {
            let names = server.only.iter().flatten();
            tools.extend(names.map(|name| json!(format!("mcp__{}__{name}", server.name))));
        }
        assert_eq!(tools.len(), 300);
        let members = json!({ "model": model, "tools": tools, "deferred_tools": deferred });
        let session = app.session_with(members).await;
        // The search is unknown to the session without deferred tools, and fails.
        let run = session.ask(&format!("Update {model} {deferred}")).await;
        assert_eq!(run["output_text"], "It says: It is updated.");
        sizes.push(first_request(&session, index).await);
        let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
        let import = app.post("/v1/sessions/import").header("content-type", "application/jsonl");
        let imported = import.body(export).send().await.unwrap();
        let (status, imported) = (imported.status(), imported.json::<Value>().await.unwrap());
        assert_eq!(status, 201, "{imported}");
        assert_eq!(imported["deferred_tools"], session.read().await["deferred_tools"]);
        let (found, is_error) = results(&session).await[0].clone();
        let lines: Vec<&str> = found.lines().collect();
        if deferred == json!([]) {
            assert!(is_error);
        } else {
            // Five are found, and the best one comes first.
            assert_eq!((lines[1], lines.len()), ("- mcp__fake__update_record_50", 6));
        }
    }
    let [all, native, found] = sizes.as_slice() else { panic!("{sizes:?}") };
    assert!(all.1 > 50_000 && native.1 < 5_000 && found.1 < 5_000, "{sizes:?}");
    assert!(native.0 > all.0 && found.0 < 20_000, "{sizes:?}");
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_deferred_tool_waits_for_approval_as_any_other() {
    let servers = servers();
    let setup = Setup {
        tool_servers: servers.iter().map(|(_, settings)| settings.clone()).collect(),
        permissions: Some(OperatorPolicy {
            default_mode: PermissionMode::AcceptEdits,
            ..OperatorPolicy::default()
        }),
        ..Setup::default()
    };
    let app = TestApp::start_with(script(), setup).await;
    let tools = json!(["mcp__fake__update_record_50", "mcp__fake__update_record_51"]);
    let members = json!({ "model": "claude-sonnet-4-6", "tools": tools,
                          "deferred_tools": ["mcp__*"] });
    let session = app.session_with(members).await;
    let run = session.post(json!({ "content": "Update" })).await;
    session.reached(&run, "session.status_idle").await;
    let history = session.history().await;
    let waiting = history.last().unwrap()["message"]["content"][0].clone();
    assert_eq!(waiting["name"], "mcp__fake__update_record_50");
    let path = session.path(&format!("/approvals/{}", waiting["id"].as_str().unwrap()));
    let decided = app.post(&path).json(&json!({ "decision": "allow" })).send().await.unwrap();
    assert!(decided.status().is_success(), "{decided:?}");
    let run = session.settled(&run).await;
    assert_eq!(run["output_text"], "It says: It is updated.");
}
