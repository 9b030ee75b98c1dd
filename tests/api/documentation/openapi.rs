//! The OpenAPI document, from which clients are generated.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{TestApp, calls, replies, says};

fn document() -> Value {
    serde_json::to_value(twostep::http::document()).unwrap()
}

/// Every operation with its route, such as `GET /v1/sessions`.
fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let mut all = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            all.push((format!("{} {path}", method.to_ascii_uppercase()), operation));
        }
    }
    all
}

/// The schema that a reference leads to.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(path) => {
            let target = document.pointer(path.strip_prefix('#').unwrap()).unwrap();
            resolve(document, target)
        }
        None => schema,
    }
}

/// Collects the values that `type` may have in a schema, including unions and parts.
fn types(document: &Value, schema: &Value, found: &mut BTreeSet<String>) {
    let schema = resolve(document, schema);
    let tag = &schema["properties"]["type"];
    let named = [&tag["const"]].into_iter();
    let listed = tag["enum"].as_array().into_iter().flatten();
    found.extend(named.chain(listed).filter_map(Value::as_str).map(str::to_owned));
    for key in ["oneOf", "anyOf", "allOf"] {
        for part in schema[key].as_array().into_iter().flatten() {
            types(document, part, found);
        }
    }
}

/// The tags of the operations of other protocols.
pub(super) const ADAPTERS: [&str; 4] = ["ag_ui", "ai_sdk", "managed_agents", "openai"];

/// The ids of all operations. Clients rely on them, so none is ever removed.
const OPERATIONS: [&str; 110] = [
    "archive_managed_agent",
    "archive_managed_environment",
    "archive_managed_session",
    "cancel_openai_response",
    "cancel_run",
    "cancel_session",
    "connect_ag_ui_thread",
    "create_browser_token",
    "create_chat_completion",
    "create_chat_turn",
    "create_events",
    "create_file",
    "create_fork",
    "create_list_ticket",
    "create_managed_agent",
    "create_managed_environment",
    "create_managed_file",
    "create_managed_session",
    "create_message",
    "create_openai_file",
    "create_openai_response",
    "create_session",
    "create_session_file",
    "create_ticket",
    "create_tool_results",
    "create_webhook",
    "decide_approval",
    "delete_agent",
    "delete_feedback",
    "delete_file",
    "delete_managed_environment",
    "delete_managed_file",
    "delete_managed_session",
    "delete_openai_file",
    "delete_session",
    "delete_webhook",
    "explain_run",
    "export_session",
    "get_agent",
    "get_docs",
    "get_file",
    "get_file_content",
    "get_health",
    "get_info",
    "get_managed_agent",
    "get_managed_environment",
    "get_managed_file",
    "get_managed_file_content",
    "get_managed_session",
    "get_metrics",
    "get_openai_file",
    "get_openai_file_content",
    "get_openai_model",
    "get_openai_response",
    "get_openapi",
    "get_readiness",
    "get_request",
    "get_run",
    "get_session",
    "get_session_file_content",
    "get_session_usage",
    "get_todos",
    "get_usage",
    "get_webhook",
    "import_session",
    "list_agents",
    "list_approvals",
    "list_chat_messages",
    "list_deliveries",
    "list_events",
    "list_forks",
    "list_managed_agents",
    "list_managed_environments",
    "list_managed_events",
    "list_managed_sessions",
    "list_mcp_servers",
    "list_messages",
    "list_models",
    "list_openai_models",
    "list_probes",
    "list_requests",
    "list_runs",
    "list_sessions",
    "list_tools",
    "list_webhooks",
    "put_agent",
    "put_feedback",
    "renew_browser_token",
    "replay_deliveries",
    "replay_delivery",
    "resume_chat",
    "retry_run",
    "revoke_browser_token",
    "revoke_browser_tokens",
    "rotate_webhook_secret",
    "run_ag_ui_agent",
    "send_managed_events",
    "stop_chat",
    "stream_events",
    "stream_managed_events",
    "stream_probe",
    "stream_run",
    "stream_sessions",
    "test_webhook",
    "update_managed_agent",
    "update_managed_environment",
    "update_managed_session",
    "update_session",
    "update_webhook",
    "verify_session",
];

#[test]
fn the_committed_document_matches_the_handlers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap();
    let generated = twostep::http::document().to_pretty_json().unwrap();
    assert!(
        committed.trim_end() == generated,
        "regenerate it: cargo run -- openapi > openapi/openapi.json"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_serves_the_same_document() {
    let app = TestApp::start(json!({})).await;
    let served = app.get("/openapi.json").send().await.unwrap();
    assert_eq!(served.json::<Value>().await.unwrap(), document());
}

#[test]
fn every_route_has_a_unique_operation_id_and_describes_its_errors() {
    let document = document();
    let mut names = BTreeMap::new();
    for (route, operation) in operations(&document) {
        let name = operation["operationId"].as_str().unwrap_or_default();
        assert!(!name.is_empty(), "{route} has no operationId");
        let other = names.insert(name.to_owned(), route.clone());
        assert_eq!(other, None, "{route} shares the name {name}");
        let text = operation["summary"].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "{route} is not described");
        let responses = operation["responses"].as_object().unwrap();
        for (status, response) in responses {
            let response = resolve(&document, response);
            // Its own errors have the form that OpenAI's clients parse.
            let error = &response["content"]["application/json"]["schema"]["$ref"];
            if operation["tags"][0] == "openai" && *error == "#/components/schemas/OpenAiError" {
                continue;
            }
            let is_report = name == "get_readiness" && status == "503";
            let is_problem = status.as_str() >= "400" && !is_report;
            let (kind, schema) = match operation["tags"][0].as_str() {
                Some("managed_agents") => ("application/json", "ManagedAgentsError"),
                _ => ("application/problem+json", "Problem"),
            };
            let content = &response["content"][kind]["schema"];
            if is_problem {
                let expected = format!("#/components/schemas/{schema}");
                assert_eq!(content["$ref"], expected, "{route} {status}");
            }
            let other = response["content"].get("application/problem+json");
            assert_eq!(other.is_some(), is_problem && schema == "Problem", "{route} {status}");
        }
    }
    assert_eq!(names.into_keys().collect::<Vec<_>>(), OPERATIONS);
}

#[test]
fn events_are_a_union_tagged_by_their_type() {
    let document = document();
    let mut found = BTreeSet::new();
    types(&document, &document["components"]["schemas"]["Event"], &mut found);
    let expected = [
        "agent.context_compacted",
        "agent.custom_tool_use",
        "agent.message",
        "agent.thinking",
        "agent.tool_result",
        "agent.tool_use",
        "session.error",
        "session.forked",
        "session.status_idle",
        "session.status_rescheduled",
        "session.status_running",
        "session.thread_created",
        "session.thread_event",
        "session.todos",
        "session.tool_server_changed",
        "session.updated",
        "session.usage",
        "span.model_request_end",
        "span.model_request_start",
        "user.custom_tool_result",
        "user.feedback",
        "user.interrupt",
        "user.message",
        "user.tool_confirmation",
    ];
    assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn streams_are_described_by_the_schema_of_one_event() {
    let document = document();
    let mut streams = Vec::new();
    for (route, operation) in operations(&document) {
        let content = &operation["responses"]["200"]["content"]["text/event-stream"];
        // Other protocols have streams of their own.
        let is_own = !ADAPTERS.iter().any(|tag| operation["tags"][0] == *tag);
        let id = operation["operationId"].as_str().unwrap();
        let is_of_session = !["stream_probe", "stream_sessions"].contains(&id);
        if is_own && !content.is_null() && is_of_session {
            assert_eq!(content["schema"]["$ref"], "#/components/schemas/Streamed", "{route}");
            streams.push(route);
        }
    }
    streams.sort();
    assert_eq!(
        streams,
        [
            "GET /v1/sessions/{session_id}/events/stream",
            "GET /v1/sessions/{session_id}/runs/{run_id}/stream",
            "POST /v1/sessions/{session_id}/approvals/{tool_use_id}",
            "POST /v1/sessions/{session_id}/cancel",
            "POST /v1/sessions/{session_id}/events",
            "POST /v1/sessions/{session_id}/messages",
            "POST /v1/sessions/{session_id}/runs/{run_id}/cancel",
            "POST /v1/sessions/{session_id}/runs/{run_id}/retry",
            "POST /v1/sessions/{session_id}/tool_results",
        ]
    );
}

/// Checks responses against their documented schemas.
#[tokio::test(flavor = "multi_thread")]
async fn responses_match_their_schemas() {
    let script = replies(&[calls("get_time", json!({})), says("Noon.")]);
    let app = TestApp::start(script).await;
    let session = app.session().await;
    let run = session.ask("What time is it?").await;
    let document = document();
    let check = |name: &str, value: &Value| {
        let mut schema = document["components"]["schemas"][name].clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(value)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(errors, Vec::<String>::new(), "{name}: {value}");
    };
    check("RunResource", &run);
    for event in session.events().await {
        check("Event", &event);
    }
    for item in session.history().await {
        check("HistoryItem", &item);
    }
    let read = app.get(&session.path("")).send().await.unwrap();
    check("SessionResource", &read.json().await.unwrap());
    let verified = app.get(&session.path("/verify")).send().await.unwrap();
    check("VerificationResource", &verified.json().await.unwrap());
    check("ExplanationResource", &session.explain(&run).await);
    for (name, path) in
        [("SessionUsage", session.path("/usage")), ("TenantUsage", "/v1/usage".into())]
    {
        check(name, &app.get(&path).send().await.unwrap().json().await.unwrap());
    }
    let request = session.path(&format!("/runs/{}/requests/1", run["id"].as_str().unwrap()));
    check("RequestResource", &app.get(&request).send().await.unwrap().json().await.unwrap());
    let missing = app.get("/v1/sessions/ses_0").send().await.unwrap();
    check("Problem", &missing.json().await.unwrap());
}
