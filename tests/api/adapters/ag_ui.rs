//! The AG-UI protocol. `tests/front-ends/ag-ui` tests the package itself.

use std::time::{Duration, Instant};

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::support::{TestApp, asks, calls_as, hangs_first, replies, says};

fn user(id: &str, text: &str) -> Value {
    json!({ "id": id, "role": "user", "content": text })
}

/// A request with these messages and other members.
fn request(app: &TestApp, path: &str, messages: &Value, others: Value) -> RequestBuilder {
    let mut body = json!({ "threadId": "thread-1", "runId": "r1", "protocolVersion": "1.0",
                           "messages": messages, "state": {}, "context": [] });
    if let Value::Object(others) = others {
        for (name, value) in others {
            body[name] = value;
        }
    }
    app.post(path).json(&body)
}

async fn events(request: RequestBuilder) -> Vec<Value> {
    let response = request.send().await.unwrap();
    let (status, text) = (response.status(), response.text().await.unwrap());
    assert_eq!(status, 200, "{text}");
    // The client splits at LF only, and a named event or an end mark breaks it.
    assert!(!text.contains('\r') && !text.contains("[DONE]") && !text.contains("null"), "{text}");
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn run(app: &TestApp, messages: Value, others: Value) -> Vec<Value> {
    events(request(app, "/ag-ui", &messages, others)).await
}

async fn connect(app: &TestApp) -> Vec<Value> {
    events(request(app, "/ag-ui/connect", &json!([]), json!({}))).await
}

/// The types of events, each once in a row.
fn kinds(events: &[Value]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events.iter().map(|it| it["type"].as_str().unwrap()).collect();
    kinds.dedup();
    kinds
}

async fn runs(app: &TestApp) -> Vec<Value> {
    let path = "/v1/sessions?external_id=thread-1";
    let page: Value = app.get(path).send().await.unwrap().json().await.unwrap();
    let path = format!("/v1/sessions/{}/runs", page["data"][0]["id"].as_str().unwrap());
    let page: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_has_its_events_in_order_and_a_repeated_message_follows_it() {
    let reply = json!({ "content": [
        { "type": "thinking", "thinking": "Let me think." },
        { "type": "text", "text": "I look." },
        { "type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {} },
    ] });
    let app = TestApp::start(replies(&[reply, says("It is late.")])).await;
    let first = run(&app, json!([user("m1", "Time?")]), json!({})).await;
    let expected = [
        "RUN_STARTED",
        "STEP_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "STEP_FINISHED",
        "STEP_STARTED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "RUN_FINISHED",
    ];
    // While they stream, a text begins before the thinking is complete.
    let (mut live, mut sorted) = (kinds(&first), expected);
    live.sort_unstable();
    sorted.sort_unstable();
    assert_eq!(live, sorted);
    let started = json!({ "type": "RUN_STARTED", "threadId": "thread-1", "runId": "r1",
                          "protocolVersion": "1.0" });
    assert_eq!(first[0], started);
    let last = first.last().unwrap();
    assert_eq!(last["outcome"], json!({ "type": "success" }));
    assert!(last["usage"][0]["totalTokens"].as_u64().unwrap() > 0, "{last}");
    let again = run(&app, json!([user("m1", "Time?")]), json!({})).await;
    assert_eq!(kinds(&again), expected);
    assert_eq!(runs(&app).await.len(), 1);
    let snapshot = connect(&app).await;
    assert_eq!(
        kinds(&snapshot),
        ["RUN_STARTED", "MESSAGES_SNAPSHOT", "STATE_SNAPSHOT", "RUN_FINISHED"]
    );
    let messages = snapshot[1]["messages"].as_array().unwrap();
    let roles: Vec<&Value> = messages.iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "reasoning", "assistant", "tool", "assistant"]);
    assert_eq!(messages[0], user("m1", "Time?"));
    assert_eq!(messages[2]["toolCalls"][0]["function"]["name"], "get_time");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_an_interrupt_that_the_next_run_resumes() {
    let ring = calls_as(&[("toolu_1", "ring", json!({ "line": "one" }))]);
    let app = TestApp::start_with(replies(&[ring, says("It said: {{results}}")]), asks()).await;
    let asked = run(&app, json!([user("m1", "Ring")]), json!({})).await;
    let outcome = &asked.last().unwrap()["outcome"];
    assert_eq!(outcome["type"], "interrupt");
    assert_eq!(outcome["interrupts"][0]["toolCallId"], "toolu_1");
    assert_eq!(connect(&app).await.last().unwrap()["outcome"], *outcome);
    let payload = json!({ "approved": true });
    let resume = json!([{ "interruptId": "toolu_1", "status": "resolved", "payload": payload }]);
    let others = json!({ "resume": resume, "runId": "r2" });
    let answered = run(&app, json!([user("m1", "Ring")]), others.clone()).await;
    let expected = ["RUN_STARTED", "TOOL_CALL_RESULT", "STEP_STARTED", "TEXT_MESSAGE_START"];
    assert_eq!(kinds(&answered)[..4], expected);
    assert_eq!(answered.last().unwrap()["outcome"]["type"], "success");
    // The same answer again is safe.
    let again = run(&app, json!([user("m1", "Ring")]), others).await;
    assert_eq!(kinds(&again)[..4], expected);
    assert_eq!(runs(&app).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_the_client_waits_for_its_result() {
    let lookup = calls_as(&[("toolu_1", "lookup", json!({ "word": "a" }))]);
    let app = TestApp::start(replies(&[lookup, says("It said {{results}}.")])).await;
    let parameters = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
    let tool = json!({ "name": "lookup", "description": "Looks up.", "parameters": parameters });
    let tools = json!({ "tools": [tool] });
    let asked = run(&app, json!([user("m1", "Look")]), tools.clone()).await;
    let outcome = json!({ "type": "success", "pendingToolCallIds": ["toolu_1"] });
    assert_eq!(asked.last().unwrap()["outcome"], outcome);
    let function = json!({ "name": "lookup", "arguments": "{}" });
    let call = json!({ "id": "toolu_1", "type": "function", "function": function });
    let reply = json!({ "id": "toolu_1", "role": "assistant", "toolCalls": [call] });
    let result =
        json!({ "id": "t1", "role": "tool", "toolCallId": "toolu_1", "content": "a letter" });
    let answered = run(&app, json!([user("m1", "Look"), reply, result]), tools).await;
    let text: String = answered.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(text, "It said a letter.");
    assert_eq!(runs(&app).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_connects_follows_the_live_run_and_closing_the_first_cancels_it() {
    let app = TestApp::start(hangs_first()).await;
    let empty = connect(&app).await;
    assert_eq!(empty[1], json!({ "type": "MESSAGES_SNAPSHOT", "messages": [] }));
    let first = request(&app, "/ag-ui", &json!([user("m1", "hang")]), json!({}));
    let mut first = first.send().await.unwrap();
    first.chunk().await.unwrap();
    let second = request(&app, "/ag-ui/connect", &json!([]), json!({})).send().await.unwrap();
    drop(first);
    let text = second.text().await.unwrap();
    assert!(text.contains(r#""messages":[{"id":"m1","role":"user","content":"hang"}]"#), "{text}");
    assert!(text.contains("cancelled"), "{text}");
    let deadline = Instant::now() + Duration::from_secs(20);
    while runs(&app).await[0]["status"] != "cancelled" {
        assert!(Instant::now() < deadline, "the run goes on");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_input_leaves_no_session() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    for messages in [json!([]), json!([{ "id": "a", "role": "assistant", "content": "Hi" }])] {
        let response = request(&app, "/ag-ui", &messages, json!({})).send().await.unwrap();
        assert_eq!(response.status(), 422, "{messages}");
    }
    let page: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    assert_eq!(page["data"], json!([]));
}
