//! Server tools, which run on the servers of the model's provider.

use serde_json::{Value, json};
use twostep::service::ModelRules;

use crate::support::{Setup, TestApp, assert_refused, invalid, replies, says};

/// A service whose operator allows two server tools: web search and code execution.
async fn app() -> TestApp {
    let server_tools =
        ["web_search_20250305", "code_execution"].map(|name| name.parse().unwrap()).into();
    let model_rules = ModelRules { server_tools, ..ModelRules::default() };
    let script = replies(&[says("Yes.")]);
    TestApp::start_with(script, Setup { model_rules, ..Setup::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_names_server_tools_like_other_tools_and_they_are_sent_after_built_in_tools() {
    let app = app().await;
    let client =
        json!({ "name": "open_door", "client": true, "input_schema": { "type": "object" } });
    let search = json!({ "name": "web_search",
                         "options": { "max_uses": 3, "allowed_domains": ["example.org"] } });
    let tools = json!([client, search, "code_execution", "get_time"]);
    let session = app.session_with(json!({ "tools": tools })).await;
    let shown = session.read().await;
    assert_eq!(shown["tools"], json!(["get_time", "web_search", "code_execution", "open_door"]));
    assert_eq!(shown["client_tools"], json!(["open_door"]));
    session.ask("Hi").await;
    let sent = app.upstream().body(0)["tools"].clone();
    assert_eq!(sent[0]["name"], "get_time");
    assert_eq!(
        sent.as_array().unwrap()[1..],
        [
            json!({ "type": "web_search_20250305", "name": "web_search", "max_uses": 3,
                    "allowed_domains": ["example.org"] }),
            json!({ "type": "code_execution_20260521", "name": "code_execution" }),
            json!({ "name": "open_door", "input_schema": { "type": "object" },
                    "cache_control": { "type": "ephemeral" } }),
        ]
    );
}

/// The server tools that were sent last.
fn sent(app: &TestApp) -> Value {
    let upstream = app.upstream();
    upstream.body(upstream.len() - 1)["tools"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bare_name_selects_the_newest_version_that_the_model_accepts() {
    let names = ["web_search", "web_fetch", "code_execution"];
    let server_tools = names.map(|name| name.parse().unwrap()).into();
    let model_rules = ModelRules { server_tools, ..ModelRules::default() };
    let script = replies(&[says("Yes.")]);
    let app = TestApp::start_with(script, Setup { model_rules, ..Setup::default() }).await;
    let older = ["web_search_20250305", "web_fetch_20250910", "code_execution_20250825"];
    let newest = ["web_search_20260318", "web_fetch_20260318", "code_execution_20260521"];
    for (model, expected) in [
        ("claude-haiku-4-5", older),
        ("claude-sonnet-4-5", older),
        ("claude-opus-4-5", older),
        ("claude-sonnet-4-6", newest),
    ] {
        let session = app.session_with(json!({ "model": model, "tools": names })).await;
        let run = session.ask(&format!("Hi {model}")).await;
        assert_eq!(run["output_text"], "Yes.", "{model}: {run}");
        let tools = sent(&app);
        let types: Vec<&Value> =
            tools.as_array().unwrap().iter().map(|tool| &tool["type"]).collect();
        assert_eq!(types, expected, "{model}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_callers_of_a_server_tool_are_those_that_the_model_supports() {
    let server_tools = vec!["web_search_20260209".parse().unwrap()];
    let model_rules = ModelRules { server_tools, ..ModelRules::default() };
    let script = replies(&[says("Yes.")]);
    let app = TestApp::start_with(script, Setup { model_rules, ..Setup::default() }).await;
    let search = |callers: &Value| json!({ "name": "web_search", "options": { "allowed_callers": callers } });
    let direct = json!(["direct"]);
    let code = json!(["direct", "code_execution_20260120"]);
    for (model, tool, callers) in [
        ("claude-haiku-4-5", json!("web_search"), &direct),
        ("claude-haiku-4-5", search(&direct), &direct),
        ("claude-sonnet-4-6", json!("web_search"), &Value::Null),
        ("claude-sonnet-4-6", search(&code), &code),
    ] {
        let session = app.session_with(json!({ "model": model, "tools": [tool] })).await;
        let run = session.ask(&format!("Hi {model} {tool}")).await;
        assert_eq!(run["output_text"], "Yes.", "{model}: {run}");
        assert_eq!(&sent(&app)[0]["allowed_callers"], callers, "{model} {tool}");
    }
    let session = app.session().await;
    for (model, callers) in [
        ("claude-haiku-4-5", code),
        ("claude-sonnet-4-6", json!([])),
        ("claude-sonnet-4-6", json!(["user"])),
        ("claude-sonnet-4-6", json!("direct")),
    ] {
        let body = json!({ "model": model, "tools": [search(&callers)] });
        let request = app.post("/v1/sessions").json(&body);
        assert_refused(&session, request, invalid("/tools/0/options/allowed_callers")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_runs_all_tools_does_not_run_server_tools() {
    let app = app().await;
    let body = json!({ "tools": ["get_time", "web_search"], "dispatch": "client" });
    let shown = app.session_with(body).await.read().await;
    assert_eq!(shown["tools"], json!(["get_time", "web_search"]));
    assert_eq!(shown["client_tools"], json!(["get_time"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn unavailable_server_tools_and_invalid_options_are_refused_with_a_pointer() {
    let app = app().await;
    let session = app.session().await;
    let search = |options: Value| json!({ "name": "web_search", "options": options });
    let code = json!({ "name": "code_execution", "options": { "max_uses": 1 } });
    let client =
        json!({ "name": "web_search", "client": true, "input_schema": { "type": "object" } });
    for (tools, pointer) in [
        (json!(["web_fetch"]), "/tools"),
        (json!([{ "name": "web_fetch", "options": {} }]), "/tools/0/name"),
        (json!(["get_time", "web_search", "web_search"]), "/tools/2/name"),
        (json!(["web_search", client]), "/tools/1/name"),
        (json!([search(json!({ "max_uses": 0 }))]), "/tools/0/options/max_uses"),
        (json!([search(json!({ "max_uses": "3" }))]), "/tools/0/options/max_uses"),
        (json!([search(json!({ "allowed_domains": [] }))]), "/tools/0/options/allowed_domains"),
        (json!([search(json!({ "user_location": 1 }))]), "/tools/0/options/user_location"),
        (json!([search(json!({ "cache_control": {} }))]), "/tools/0/options/cache_control"),
        (
            json!([search(json!({ "allowed_domains": ["a"], "blocked_domains": ["b"] }))]),
            "/tools/0/options/blocked_domains",
        ),
        (json!(["get_time", code]), "/tools/1/options/max_uses"),
        (json!([{ "name": "web_search", "options": 1 }]), "/tools/0/options"),
        (json!([{ "name": "web_search", "options": {}, "client": true }]), "/tools/0"),
    ] {
        let request = app.post("/v1/sessions").json(&json!({ "tools": tools }));
        assert_refused(&session, request, invalid(pointer)).await;
    }
}
