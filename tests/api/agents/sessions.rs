//! Sessions that are created with an agent.

use serde_json::{Value, json};
use twostep::tools::policy::OperatorPolicy;

use super::{at_agent, put, refused};
use crate::support::{Setup, TestApp, problem, replies, says};

/// The values of these members of a session.
fn values(session: &Value, members: &[&str]) -> Vec<Value> {
    members.iter().map(|member| session[*member].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_has_the_settings_of_its_agent_and_later_versions_do_not_change_it() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let one = json!({ "system": "You are one.", "tools": ["get_time"], "max_tokens": 500 });
    assert_eq!(put(&app, "desk", one).await, 1);
    let first = app.session_with(json!({ "agent": "desk" })).await;
    let two =
        json!({ "system": "You are two.", "tools": ["read_file"], "stop_sequences": ["END"] });
    assert_eq!(put(&app, "desk", two).await, 2);
    let second = app.session_with(json!({ "agent": "desk" })).await;
    let again = app.session_with(json!({ "agent": "desk@1" })).await;

    let members = ["agent", "system", "tools", "max_tokens", "stop_sequences"];
    let version_1 =
        json!([{ "name": "desk", "version": 1 }, "You are one.", ["get_time"], 500, []]);
    let version_2 =
        json!([{ "name": "desk", "version": 2 }, "You are two.", ["read_file"], 1000, ["END"]]);
    assert_eq!(json!(values(&first.read().await, &members)), version_1);
    assert_eq!(json!(values(&again.read().await, &members)), version_1);
    assert_eq!(json!(values(&second.read().await, &members)), version_2);
    for (session, system) in [(&first, "You are one."), (&second, "You are two.")] {
        session.ask(&format!("Say yes, {system}")).await;
        let upstream = app.upstream();
        let sent = upstream.body(upstream.len() - 1);
        assert_eq!(sent["system"][0]["text"], system);
    }
    // A fork has the settings of its source.
    let fork: Value = app.post(&first.path("/forks")).send().await.unwrap().json().await.unwrap();
    assert_eq!(json!(values(&fork, &members)), version_1);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_the_request_override_the_agent_and_the_agent_overrides_the_operator() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    put(
        &app,
        "desk",
        json!({
            "model": "claude-opus-5-5", "max_tokens": 500, "system": "Of the agent.",
            "tools": ["get_time"], "stop_sequences": ["END"], "effort": "low",
            "limits": { "rounds": 2, "seconds": 60 }, "budget": { "tokens": 1_000_000 },
            "permission_mode": "plan",
            "permissions": [{ "tool": "get_time", "decision": "deny" }],
            "context": { "compact_at": 5000, "compact_instructions": "Be brief." },
        }),
    )
    .await;
    let session = app
        .session_with(json!({
            "agent": "desk", "title": "Of the request", "system": "Of the request.",
            "stop_sequences": [], "limits": { "rounds": 7 }, "context": { "compact_at": 0 }, "permissions": [],
        }))
        .await;
    let members = [
        "title",
        "model",
        "max_tokens",
        "system",
        "tools",
        "stop_sequences",
        "effort",
        "limits",
        "budget",
        "permission_mode",
        "permissions",
        "context",
    ];
    let expected = json!([
        "Of the request", "claude-opus-5-5", 500, "Of the request.", ["get_time"], [], "low",
        { "rounds": 7, "seconds": 60 }, { "tokens": 1_000_000 }, "plan", [],
        { "compact_instructions": "Be brief." },
    ]);
    assert_eq!(json!(values(&session.read().await, &members)), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_agent_is_named() {
    let app = TestApp::start(replies(&[])).await;
    put(&app, "desk", json!({})).await;
    for (agent, message) in [
        ("painter", "is painter, but there is no such agent"),
        ("desk@2", "is desk@2, but there is no such agent"),
        ("coder@2", "is coder@2, but there is no such agent"),
        ("desk@0", "\"0\" is not a version: versions are counted from 1"),
        ("desk@latest", "\"latest\" is not a version: versions are counted from 1"),
        ("Desk", "\"Desk\" is not 1 to 64 of a-z, 0-9, _ and -, the first a letter or a digit"),
    ] {
        assert_eq!(refused(&app, json!({ "agent": agent })).await, at_agent(message));
    }
    assert_eq!(refused(&app, json!({ "agent": 7 })).await["pointer"], "/agent");
    let session = app.session_with(json!({ "agent": null })).await;
    assert_eq!(session.read().await.get("agent"), None);
    // The agent is pinned.
    let change = app.client.patch(app.url(&session.path(""))).json(&json!({ "agent": "desk" }));
    let refused = problem(change.send().await.unwrap(), 422, "validation_failed").await;
    let pinned = "is pinned when the session is created, and cannot be changed";
    assert_eq!(refused["errors"], json!([at_agent(pinned)]));
}

/// A profile may become invalid after it was stored.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_the_source_of_the_invalid_setting() {
    let app = TestApp::start(replies(&[])).await;
    put(&app, "desk", json!({ "tools": ["get_time"], "limits": { "rounds": 2 } })).await;
    let make_invalid = "UPDATE agent_versions SET profile = '{\"tools\": [\"gone\"], \
                 \"limits\": {\"rounds\": 2, \"cost\": 5}, \"permissions\": \
                 [{\"tool\": \"a;b\\u200b\", \"decision\": \"deny\"}]}'";
    sqlx::query(make_invalid).execute(&app.database.pool(1)).await.unwrap();
    let of_agent =
        |pointer: &str, message: &str| at_agent(&format!("is desk@1, whose {pointer} {message}"));
    let rules = json!([]);
    let error = refused(&app, json!({ "agent": "desk", "permissions": rules })).await;
    let missing = "names a tool that does not exist: \"gone\"";
    assert_eq!(error, of_agent("/tools", missing));
    let error = refused(&app, json!({ "agent": "desk", "tools": [] })).await;
    assert!(
        error["message"].as_str().unwrap().starts_with("is desk@1, whose /permissions/0/tool "),
        "{error}"
    );
    let body = json!({ "agent": "desk", "tools": ["gone too"], "permissions": rules });
    let expected =
        json!({ "pointer": "/tools", "message": "names a tool that does not exist: \"gone too\"" });
    assert_eq!(refused(&app, body).await, expected);
    let price = "cannot be enforced: the operator has set no price for simulator; prices are set with --prices";
    let body = json!({ "agent": "desk", "tools": [], "permissions": rules });
    assert_eq!(refused(&app, body).await, of_agent("/limits/cost", price));
    let body =
        json!({ "agent": "desk", "tools": [], "permissions": rules, "limits": { "cost": 7 } });
    assert_eq!(refused(&app, body).await, json!({ "pointer": "/limits/cost", "message": price }));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_cannot_use_a_permission_mode_that_the_operator_has_not_enabled() {
    let app = TestApp::start(replies(&[])).await;
    put(&app, "free", json!({ "permission_mode": "bypass" })).await;
    let session = app.session_with(json!({ "agent": "free" })).await;
    assert_eq!(session.read().await["permission_mode"], "bypass");
    // The same agent in a service whose operator has not enabled the mode.
    let strict = Setup { permissions: Some(OperatorPolicy::default()), ..Setup::default() };
    let other = TestApp::start_with(replies(&[]), strict).await;
    let copy = "INSERT INTO agents (tenant_id, name, version) SELECT id, 'free', 1 FROM tenants";
    sqlx::query(copy).execute(&other.database.pool(1)).await.unwrap();
    let copy = "INSERT INTO agent_versions (tenant_id, name, version, profile)
                SELECT id, 'free', 1, '{\"permission_mode\": \"bypass\"}' FROM tenants";
    sqlx::query(copy).execute(&other.database.pool(1)).await.unwrap();
    let message = "is free@1, whose /permission_mode is not enabled; the operator enables it with \
                   --allow-bypass";
    assert_eq!(refused(&other, json!({ "agent": "free" })).await, at_agent(message));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_has_the_settings_of_a_session_without_its_agent() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    put(&app, "desk", json!({ "system": "You are one.", "tools": ["get_time"] })).await;
    let session = app.session_with(json!({ "agent": "desk" })).await;
    session.ask("Are you there?").await;
    let export = app.get(&session.path("/export")).send().await.unwrap().text().await.unwrap();
    let header: Value = serde_json::from_str(export.lines().next().unwrap()).unwrap();
    let settings = values(&header["settings"], &["system", "tools", "agent"]);
    assert_eq!(json!(settings), json!(["You are one.", ["get_time"], null]));

    // An import may name an agent.
    let import = |agent: &str| {
        let first = json!({ "type": "session", "version": 1, "settings": { "agent": agent } });
        let lines = format!("{first}\n{}\n", json!({ "type": "end", "messages": 0 }));
        let post = app.post("/v1/sessions/import").header("content-type", "application/jsonl");
        post.body(lines).send()
    };
    let imported: Value = import("desk@1").await.unwrap().json().await.unwrap();
    assert_eq!(imported["system"], "You are one.");
    let refused = problem(import("painter").await.unwrap(), 422, "validation_failed").await;
    assert_eq!(refused["errors"][0]["pointer"], "/lines/1/settings/agent");
}
