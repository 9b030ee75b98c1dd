//! Sending and listing events.

use serde_json::{Value, json};

use super::{Sdk, kinds, refused, user};
use crate::support::{TestApp, asks, calls_as, hangs_first, replies, says};

/// Tools that the session asks about.
fn ring(policy: &str) -> Value {
    json!([{ "type": "mcp_toolset", "mcp_server_name": "twostep",
             "configs": [{ "name": "ring", "permission_policy": { "type": policy } }] }])
}

fn rings(id: &str) -> Value {
    calls_as(&[(id, "ring", json!({ "line": "one" }))])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_answered_and_the_list_has_the_events_of_the_stream() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let sdk = Sdk::new(&app);
    let session = sdk.session(json!([])).await;
    let mut stream = sdk.stream(&session, "", None).await;
    let sent = sdk.send(&session, json!([user("Hi")])).await;
    let streamed = stream.until("session.status_idle").await;
    assert_eq!(
        kinds(&streamed),
        [
            "user.message",
            "session.status_running",
            "span.model_request_start",
            "agent.message",
            "span.model_request_end",
            "session.status_idle",
        ]
    );
    assert_eq!(sent, [streamed[0].clone()]);
    assert_eq!(sent[0]["content"], json!([{ "type": "text", "text": "Hi" }]));
    assert!(sent[0]["processed_at"].is_string());
    assert_eq!(streamed[3]["content"], json!([{ "type": "text", "text": "Hello." }]));
    assert_eq!(streamed[5]["stop_reason"], json!({ "type": "end_turn" }));
    assert_eq!(streamed[5]["stop_details"], Value::Null);
    for event in &streamed {
        assert!(event["id"].is_string() && event["processed_at"].is_string(), "{event}");
        for own in ["seq", "session_id", "run_id", "created_at", "message_id"] {
            assert!(event.get(own).is_none(), "{event}");
        }
    }
    assert_eq!(sdk.events(&session).await, streamed);
    let newest = sdk.read(&format!("/sessions/{session}/events?order=desc&limit=1")).await;
    assert_eq!(newest["data"], json!([streamed[5]]));
    let path = format!("/sessions/{session}/events?types[]=agent.message&types[]=user.message");
    assert_eq!(sdk.list(&path).await, [streamed[0].clone(), streamed[3].clone()]);
    let path = format!("/sessions/{session}/events?types[]=workflow_run.created");
    assert_eq!(sdk.list(&path).await, Vec::<Value>::new());
    let usage = sdk.read(&format!("/sessions/{session}")).await["usage"].clone();
    assert!(usage["output_tokens"].as_i64().unwrap() > 0, "{usage}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_a_confirmation_which_allows_or_denies_it() {
    let script = replies(&[rings("toolu_1"), rings("toolu_2"), says("Rang once.")]);
    let app = TestApp::start_with(script, asks()).await;
    let sdk = Sdk::new(&app);
    let session = sdk.session(ring("always_ask")).await;
    let mut stream = sdk.stream(&session, "", None).await;
    sdk.send(&session, json!([user("Ring twice")])).await;
    let first = stream.until("session.status_idle").await;
    let call = first.iter().find(|event| event["type"] == "agent.tool_use").unwrap();
    assert_eq!((&call["id"], &call["name"]), (&json!("toolu_1"), &json!("ring")));
    assert_eq!(call["evaluated_permission"], "ask");
    let waits = json!({ "type": "requires_action", "event_ids": ["toolu_1"] });
    assert_eq!(first.last().unwrap()["stop_reason"], waits);
    assert_eq!(sdk.read(&format!("/sessions/{session}")).await["status"], "idle");

    // The SDKs send members without a value as null.
    let allow = json!({ "type": "user.tool_confirmation", "tool_use_id": "toolu_1", "result": "allow",
                        "deny_message": null });
    let sent = sdk.send(&session, json!([allow])).await;
    let second = stream.until("session.status_idle").await;
    assert_eq!(sent, [second[0].clone()]);
    assert_eq!(second[0]["type"], "user.tool_confirmation");
    let result = second.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
    assert_eq!(result["content"][0]["text"], "Rang: one");
    // The same decision again is the same event; another one is refused.
    assert_eq!(sdk.send(&session, json!([allow])).await, sent);
    let mut deny =
        json!({ "type": "user.tool_confirmation", "tool_use_id": "toolu_1", "result": "deny" });
    let path = format!("/sessions/{session}/events");
    let (status, error) = refused(sdk.post(&path, &json!({ "events": [deny] }))).await;
    assert_eq!((status, &error["type"]), (409, &json!("conflict_error")));

    deny["tool_use_id"] = "toolu_2".into();
    deny["deny_message"] = "Once is enough.".into();
    let sent = sdk.send(&session, json!([deny])).await;
    assert_eq!(sent[0]["deny_message"], "Once is enough.");
    let third = stream.until("session.status_idle").await;
    let result = third.iter().find(|event| event["type"] == "agent.tool_result").unwrap();
    assert_eq!((&result["tool_use_id"], &result["is_error"]), (&json!("toolu_2"), &json!(true)));
    assert!(result["content"][0]["text"].as_str().unwrap().contains("Once is enough."));
    assert_eq!(third.last().unwrap()["stop_reason"]["type"], "end_turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_the_client_gets_its_result() {
    let call = calls_as(&[("toolu_1", "lookup", json!({ "word": "ledger" }))]);
    let app = TestApp::start(replies(&[call, says("It means {{results}}.")])).await;
    let sdk = Sdk::new(&app);
    let schema = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
    let tools = json!([{ "type": "custom", "name": "lookup", "description": "Looks up a word.",
                         "input_schema": schema }]);
    let session = sdk.session(tools).await;
    let mut stream = sdk.stream(&session, "", None).await;
    sdk.send(&session, json!([user("Look up ledger")])).await;
    let first = stream.until("session.status_idle").await;
    let call = first.iter().find(|event| event["type"] == "agent.custom_tool_use").unwrap();
    assert_eq!((&call["name"], &call["input"]), (&json!("lookup"), &json!({ "word": "ledger" })));
    let result = json!({ "type": "user.custom_tool_result", "custom_tool_use_id": call["id"],
                         "content": [{ "type": "text", "text": "a book" }], "is_error": null });
    let sent = sdk.send(&session, json!([result])).await;
    let second = stream.until("session.status_idle").await;
    assert_eq!(sent, [second[0].clone()]);
    assert_eq!(
        (&sent[0]["custom_tool_use_id"], &sent[0]["is_error"]),
        (&call["id"], &json!(false))
    );
    let answer = second.iter().find(|event| event["type"] == "agent.message").unwrap();
    assert_eq!(answer["content"][0]["text"], "It means a book.");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_stops_the_run_and_a_queued_message_waits() {
    let app = TestApp::start(hangs_first()).await;
    let sdk = Sdk::new(&app);
    let session = sdk.session(json!([])).await;
    let mut stream = sdk.stream(&session, "", None).await;
    sdk.send(&session, json!([user("hang")])).await;
    stream.until("span.model_request_start").await;
    let queued = sdk.send(&session, json!([user("Later")])).await;
    assert_eq!(queued[0]["content"], user("Later")["content"]);
    assert!(queued[0]["id"].is_string());
    assert_eq!(sdk.read(&format!("/sessions/{session}")).await["status"], "running");

    let sent = sdk
        .send(
            &session,
            json!([{ "type": "user.interrupt", "session_thread_id": null }, user("Now")]),
        )
        .await;
    assert_eq!(kinds(&sent), ["user.interrupt", "user.message"]);
    assert!(sent[0]["processed_at"].is_string());
    let ended = stream.until("session.status_idle").await;
    let stopped = json!({ "type": "end_turn", "reason": "cancelled" });
    assert_eq!(ended.last().unwrap()["stop_reason"], stopped);
    // The interrupted reply may be a message as well.
    let mut all = ended;
    while all.last().unwrap()["content"][0]["text"] != "You said Now." {
        all.append(&mut stream.until("agent.message").await);
    }
    assert!(all.contains(&sent[0]), "{all:?}");
    stream.until("session.status_idle").await;

    // Nothing runs: there is nothing to stop.
    let before = sdk.events(&session).await;
    let sent = sdk.send(&session, json!([{ "type": "user.interrupt" }])).await;
    assert_eq!(sent[0]["type"], "user.interrupt");
    assert!(sent[0]["id"].is_string() && sent[0]["processed_at"].is_string());
    assert_eq!(sdk.events(&session).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_has_no_second_effect() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let sdk = Sdk::new(&app);
    let session = sdk.session(json!([])).await;
    let mut stream = sdk.stream(&session, "", None).await;
    let path = format!("/sessions/{session}/events");
    let send = |text: &str| {
        sdk.post(&path, &json!({ "events": [user(text)] })).header("idempotency-key", "one")
    };
    let first = Sdk::success(send("Hi")).await;
    stream.until("session.status_idle").await;
    assert_eq!(Sdk::success(send("Hi")).await, first);
    assert_eq!(app.upstream().len(), 1);
    let (status, error) = refused(send("Other")).await;
    assert_eq!((status, &error["details"]["error_code"]), (400, &json!("idempotency_key_reused")));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_that_the_service_cannot_apply_are_refused_and_change_nothing() {
    let app = TestApp::start(replies(&[])).await;
    let sdk = Sdk::new(&app);
    let session = sdk.session(json!([])).await;
    let path = format!("/sessions/{session}/events");
    let outcome = json!({ "type": "user.define_outcome", "description": "d", "rubric": {} });
    let result = json!({ "type": "user.tool_result", "tool_use_id": "toolu_1", "content": [] });
    let system =
        json!({ "type": "system.message", "content": [{ "type": "text", "text": "Obey." }] });
    let thread = json!({ "type": "user.interrupt", "session_thread_id": "sthr_1" });
    for (events, pointer) in [
        (json!([]), "/events"),
        (json!([outcome]), "/events/0/type"),
        (json!([{ "type": "user.interrupt" }, result]), "/events/1/type"),
        (json!([user("Hi"), system]), "/events/1/type"),
        (json!([user("Hi"), user("Ho")]), "/events/0/type"),
        (json!([{ "type": "user.shrug" }]), "/events/0/type"),
        (json!([thread]), "/events/0/session_thread_id"),
    ] {
        let (status, error) = refused(sdk.post(&path, &json!({ "events": events }))).await;
        assert_eq!(
            (status, &error["details"]["errors"][0]["pointer"]),
            (400, &json!(pointer)),
            "{error}"
        );
    }
    let confirmation =
        json!({ "type": "user.tool_confirmation", "tool_use_id": "toolu_1", "result": "allow" });
    let (status, error) = refused(sdk.post(&path, &json!({ "events": [confirmation] }))).await;
    assert_eq!((status, &error["details"]["error_code"]), (404, &json!("approval_not_found")));
    assert_eq!(sdk.events(&session).await, Vec::<Value>::new());
}
