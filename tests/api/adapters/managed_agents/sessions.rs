//! Sessions.

use serde_json::{Value, json};

use super::client::id;
use super::{Sdk, refused, user};
use crate::support::{TestApp, hangs_first, replies, says};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_created_changed_archived_and_deleted() {
    let app = TestApp::start(replies(&[])).await;
    let sdk = Sdk::new(&app);
    let agent = sdk.agent(json!([{ "type": "agent_toolset_20260401" }])).await;
    let body = json!({ "agent": { "type": "agent", "id": agent, "version": 1 },
                       "environment_id": "env_default", "title": "First", "metadata": { "a": "b" },
                       "resources": [], "vault_ids": [] });
    let created = sdk.create("/sessions", body).await;
    let path = format!("/sessions/{}", id(&created));
    assert_eq!((&created["type"], &created["status"]), (&json!("session"), &json!("idle")));
    assert_eq!((&created["title"], &created["metadata"]), (&json!("First"), &json!({ "a": "b" })));
    let own = &created["agent"];
    assert_eq!(
        (&own["id"], &own["name"], &own["version"]),
        (&json!(agent), &json!("Desk"), &json!(1))
    );
    assert!(own["tools"][0]["configs"].to_string().contains("\"name\":\"edit\""), "{own}");
    assert_eq!(created["usage"]["input_tokens"], 0);
    assert_eq!(sdk.read(&path).await, created);

    let changed =
        sdk.create(&path, json!({ "title": null, "metadata": { "a": null, "c": "d" } })).await;
    assert_eq!((&changed["title"], &changed["metadata"]), (&Value::Null, &json!({ "c": "d" })));
    let archived = sdk.create(&format!("{path}/archive"), json!({})).await;
    assert!(archived["archived_at"].is_string());
    let events = json!({ "events": [user("Hello")] });
    let (status, error) = refused(sdk.post(&format!("{path}/events"), &events)).await;
    assert_eq!((status, &error["details"]["error_code"]), (409, &json!("session_archived")));
    assert_eq!(sdk.list("/sessions").await, Vec::<Value>::new());
    assert_eq!(sdk.list("/sessions?include_archived=true").await, [archived]);

    let deleted = Sdk::success(sdk.delete(&path)).await;
    assert_eq!(deleted, json!({ "type": "session_deleted", "id": created["id"] }));
    assert_eq!(refused(sdk.get(&path)).await.0, 404);
    assert_eq!(refused(sdk.delete(&path)).await.0, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_can_override_settings_of_its_agent() {
    let app = TestApp::start(replies(&[])).await;
    let sdk = Sdk::new(&app);
    let agent = sdk.agent(json!([{ "type": "agent_toolset_20260401" }])).await;
    let choice = json!({
        "type": "agent_with_overrides", "id": agent, "model": "other", "system": "Be kind.",
        "tools": [{ "type": "mcp_toolset", "mcp_server_name": "twostep",
                    "configs": [{ "name": "get_time", "permission_policy": { "type": "always_ask" } }] }],
    });
    let created =
        sdk.create("/sessions", json!({ "agent": choice, "environment_id": "env_default" })).await;
    let own = &created["agent"];
    assert_eq!((&own["model"]["id"], &own["system"]), (&json!("other"), &json!("Be kind.")));
    assert_eq!(own["tools"].as_array().unwrap().len(), 1);
    assert_eq!(own["tools"][0]["configs"][0]["permission_policy"]["type"], "always_ask");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_the_service_cannot_honour_are_refused() {
    let app = TestApp::start(replies(&[])).await;
    let sdk = Sdk::new(&app);
    let budget =
        json!({ "type": "limit", "max_list_cost": { "amount": "100", "currency": "USD" } });
    for (member, value, pointer) in [
        ("resources", json!([{ "type": "file", "file_id": "file_1" }]), "/resources"),
        ("vault_ids", json!(["vlt_1"]), "/vault_ids"),
        ("agent", json!("unknown"), "/agent"),
        ("agent", json!({ "type": "robot", "id": "general" }), "/agent/type"),
        ("agent", json!({ "type": "agent", "id": "general", "system": "x" }), "/agent/type"),
        ("metadata", json!({ "a": 1 }), "/metadata/a"),
        ("initial_events", json!([{ "type": "user.define_outcome" }]), "/initial_events/0/type"),
        (
            "initial_events",
            json!([{ "type": "user.message", "content": [] }]),
            "/initial_events/0/content",
        ),
        // The operator has configured no prices.
        ("budget", budget, "/budget/cost"),
    ] {
        let mut body = json!({ "agent": "general" });
        body[member] = value;
        let (status, error) = refused(sdk.post("/sessions", &body)).await;
        assert_eq!(
            (status, &error["details"]["errors"][0]["pointer"]),
            (400, &json!(pointer)),
            "{error}"
        );
    }
    let session = id(&sdk.create("/sessions", json!({ "agent": "general" })).await);
    for (member, value) in
        [("agent", json!({ "tools": [] })), ("budget", Value::Null), ("vault_ids", json!(["v"]))]
    {
        let (status, error) =
            refused(sdk.post(&format!("/sessions/{session}"), &json!({ member: value }))).await;
        assert_eq!(
            (status, &error["details"]["errors"][0]["pointer"]),
            (400, &json!(format!("/{member}")))
        );
    }
    assert_eq!(sdk.list("/sessions").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_by_agent_status_and_time_in_both_directions() {
    let app = TestApp::start(hangs_first()).await;
    let sdk = Sdk::new(&app);
    let agent = sdk.agent(json!([])).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(sdk.create("/sessions", json!({ "agent": agent })).await);
    }
    let other = sdk.create("/sessions", json!({ "agent": "general" })).await;
    let busy = id(&all[1]);
    sdk.send(&busy, json!([user("hang")])).await;
    let ids = async |query: &str| -> Vec<String> {
        sdk.list(&format!("/sessions?limit=2&{query}")).await.iter().map(id).collect()
    };
    let named: Vec<String> = all.iter().map(id).collect();
    let newest_first: Vec<String> = named.iter().rev().cloned().collect();
    assert_eq!(ids(&format!("agent_id={agent}")).await, newest_first);
    assert_eq!(ids(&format!("agent_id={agent}&agent_version=1&order=asc")).await, named);
    assert_eq!(ids(&format!("agent_id={agent}&agent_version=2")).await, Vec::<String>::new());
    assert_eq!(ids("statuses[]=running").await, std::slice::from_ref(&busy));
    assert_eq!(ids("statuses[]=idle").await, [id(&other), named[2].clone(), named[0].clone()]);
    assert_eq!(ids("statuses[]=idle&statuses[]=running").await.len(), 4);
    assert_eq!(ids("statuses[]=terminated").await, Vec::<String>::new());
    let time = all[2]["created_at"].as_str().unwrap();
    assert_eq!(ids(&format!("created_at[gte]={time}")).await, [id(&other), named[2].clone()]);
    assert_eq!(ids(&format!("created_at[gt]={time}")).await, [id(&other)]);
    assert_eq!(ids(&format!("created_at[lt]={time}&order=asc")).await, named[..2]);
    assert_eq!(ids(&format!("created_at[lte]={time}&order=asc")).await, named);

    let first = sdk.read("/sessions?limit=3").await;
    assert!(first.get("prev_page").is_none());
    let next = first["next_page"].as_str().unwrap();
    let second = sdk.read(&format!("/sessions?limit=3&page={next}")).await;
    assert_eq!(second["data"].as_array().unwrap().len(), 1);
    assert!(second.get("next_page").is_none());
    let previous = second["prev_page"].as_str().unwrap();
    let again = sdk.read(&format!("/sessions?limit=3&page={previous}")).await;
    assert_eq!(again["data"], first["data"]);
    sdk.send(&busy, json!([{ "type": "user.interrupt" }])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn initial_messages_start_runs_once() {
    let app = TestApp::start(replies(&[says("Hello."), says("Again.")])).await;
    let sdk = Sdk::new(&app);
    let agent = sdk.agent(json!([])).await;
    let body =
        json!({ "agent": agent, "environment_id": "env_default", "initial_events": [user("Hi")] });
    let create = || sdk.post("/sessions", &body).header("idempotency-key", "one");
    let created = Sdk::success(create()).await;
    let again = Sdk::success(create()).await;
    assert_eq!(created["id"], again["id"]);
    let session = id(&created);
    let mut stream = sdk.stream(&session, "", Some(0)).await;
    stream.until("session.status_idle").await;
    let events = sdk.list(&format!("/sessions/{session}/events?types[]=user.message")).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["content"], json!([{ "type": "text", "text": "Hi" }]));
    assert_eq!(app.upstream().len(), 1);
}
