//! The chunks of a stream.

use serde_json::{Value, json};

use super::{Chat, kinds, of_type, user};
use crate::support::{TestApp, asks, calls_as, replies, says};

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_streamed_with_the_headers_of_the_protocol() {
    let app = TestApp::start(replies(&[says("Hello there, friend.")])).await;
    let chat = Chat::new(&app);
    let response = chat.request(json!({ "message": user("m1", "Hi") })).send().await.unwrap();
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream");
    assert_eq!(header("x-vercel-ai-ui-message-stream"), "v1");
    assert_eq!(header("x-accel-buffering"), "no");
    let caching = header("cache-control");
    assert!(caching.contains("no-cache") && caching.contains("no-transform"), "{caching}");
    let chunks = super::chat::chunks(response).await;
    let run = chat.session().await;
    let run = &chat.runs(&run).await[0];
    let start = &chunks[0];
    assert_eq!(start["messageId"], format!("msg_{}", run["id"].as_str().unwrap()));
    assert_eq!(start["messageMetadata"]["run_id"], run["id"]);
    let kinds = kinds(&chunks);
    assert_eq!(kinds[..3], ["start", "start-step", "text-start"]);
    assert_eq!(kinds[kinds.len() - 4..], ["text-end", "message-metadata", "finish-step", "finish"]);
    let deltas = of_type(&chunks, "text-delta");
    let text: String = deltas.iter().map(|it| it["delta"].as_str().unwrap()).collect();
    assert_eq!(text, "Hello there, friend.");
    assert_eq!(chunks.last().unwrap()["finishReason"], "stop");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_have_outputs_errors_and_reasoning_in_their_step() {
    let reply = json!({ "content": [
        { "type": "thinking", "thinking": "Let me think." },
        { "type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {} },
        { "type": "tool_use", "id": "toolu_2", "name": "read_file", "input": { "path": "missing" } },
    ] });
    let app = TestApp::start(replies(&[reply, says("Done.")])).await;
    let chunks = Chat::new(&app).ask("m1", "Look").await;
    let is_of_first = |it: &&Value| it["type"] != "finish-step";
    let first: Vec<Value> = chunks.iter().take_while(is_of_first).cloned().collect();
    assert_eq!(of_type(&first, "reasoning-end").len(), 1);
    let available = of_type(&first, "tool-input-available");
    assert_eq!(
        available[0],
        &json!({ "type": "tool-input-available", "toolCallId": "toolu_1", "toolName": "get_time",
                 "input": {}, "dynamic": true, "providerExecuted": true })
    );
    assert_eq!(of_type(&first, "tool-output-available")[0]["toolCallId"], "toolu_1");
    assert_eq!(of_type(&first, "tool-output-error")[0]["toolCallId"], "toolu_2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_waits_for_an_approval_and_goes_on_in_the_same_message() {
    let app = approval_service().await;
    let chat = Chat::new(&app);
    let asked = chat.ask("m1", "Ring").await;
    let request = json!({ "type": "tool-approval-request", "approvalId": "toolu_1",
                          "toolCallId": "toolu_1" });
    assert_eq!(of_type(&asked, "tool-approval-request"), [&request]);
    assert_eq!(asked.last().unwrap()["finishReason"], "tool-calls");

    let answered = chat.send(decision(&asked, json!({ "approved": true }))).await;
    assert_eq!(answered[0]["messageId"], asked[0]["messageId"]);
    let kinds = kinds(&answered);
    assert_eq!(kinds[..4], ["start", "tool-output-available", "start-step", "text-start"]);
    assert_eq!(answered.last().unwrap()["finishReason"], "stop");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_call_is_denied_in_the_stream() {
    let app = approval_service().await;
    let chat = Chat::new(&app);
    let asked = chat.ask("m1", "Ring").await;
    let body = decision(&asked, json!({ "approved": false, "reason": "Too loud." }));
    let denied = chat.send(body).await;
    assert_eq!(kinds(&denied)[..3], ["start", "tool-output-denied", "start-step"]);
    let messages = chat.messages().await;
    let call = &messages[1]["parts"][1];
    assert_eq!(call["state"], "output-denied");
    let approval = json!({ "id": "toolu_1", "approved": false, "reason": "Too loud." });
    assert_eq!(call["approval"], approval);
}

#[tokio::test(flavor = "multi_thread")]
async fn version_5_has_no_approvals() {
    let app = approval_service().await;
    let chat = Chat::new(&app);
    let body = json!({ "id": chat.id, "message": user("m1", "Ring") });
    let response = app.post("/ai-sdk/chat?v=5").json(&body).send().await.unwrap();
    let asked = super::chat::chunks(response).await;
    assert_eq!(of_type(&asked, "tool-approval-request"), Vec::<&Value>::new());
    let path =
        format!("/v1/sessions/{}/approvals/toolu_1", chat.session().await["id"].as_str().unwrap());
    let deny = app.post(&path).json(&json!({ "decision": "deny" })).header("prefer", "wait=30");
    assert_eq!(deny.send().await.unwrap().status(), 200);
    let messages = app.get(&chat.path("/messages?v=5")).send().await.unwrap();
    let messages: Value = messages.json().await.unwrap();
    assert_eq!(messages[1]["parts"][1]["state"], "output-error");
    let unknown = app.get(&chat.path("/messages?v=4")).send().await.unwrap();
    assert_eq!(unknown.status(), 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_run_ends_with_an_error() {
    let error = json!({ "type": "invalid_request_error", "message": "no such thing" });
    let app = TestApp::start(replies(&[json!({ "status": 400, "error": error })])).await;
    let chunks = Chat::new(&app).ask("m1", "Hi").await;
    let last = chunks.last().unwrap();
    assert_eq!(last["type"], "error");
    assert!(last["errorText"].as_str().unwrap().contains("invalid_request_error"), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_front_end_brings_its_own_tools() {
    let lookup = json!({ "content": [
        { "type": "tool_use", "id": "toolu_1", "name": "lookup", "input": { "word": "a" } },
    ] });
    let app = TestApp::start(replies(&[lookup, says("It said {{results}}")])).await;
    let chat = Chat::new(&app);
    let parameters = json!({ "type": "object", "properties": { "word": { "type": "string" } } });
    let tools = json!({ "lookup": { "description": "Looks up.", "parameters": parameters } });
    let body = json!({ "messages": [user("m1", "Look")], "tools": tools, "system": "Be brief.",
                       "callSettings": {}, "metadata": {} });
    let asked = chat.send(body).await;
    let call = json!({ "type": "tool-input-available", "toolCallId": "toolu_1",
                       "toolName": "lookup", "input": { "word": "a" }, "dynamic": true });
    assert_eq!(of_type(&asked, "tool-input-available"), [&call]);

    let part = json!({ "type": "dynamic-tool", "toolName": "lookup", "toolCallId": "toolu_1",
                       "state": "output-available", "input": {}, "output": { "meaning": 1 } });
    let reply = json!({ "id": asked[0]["messageId"], "role": "assistant", "parts": [part] });
    let body =
        json!({ "messages": [user("m1", "Look"), reply], "messageId": asked[0]["messageId"] });
    let answered = chat.send(body.clone()).await;
    // The client has the result already.
    assert_eq!(of_type(&answered, "tool-output-available"), Vec::<&Value>::new());
    let again = chat.send(body).await;
    assert_eq!(kinds(&again)[..2], ["start", "start-step"]);
    let messages = chat.messages().await;
    assert_eq!(messages[1]["parts"][1]["output"], json!({ "meaning": 1 }));
    assert_eq!(messages[1]["parts"][3]["text"], r#"It said {"meaning":1}"#);
}

/// A service whose model calls a tool that needs an approval.
pub(super) async fn approval_service() -> TestApp {
    let ring = calls_as(&[("toolu_1", "ring", json!({ "line": "one" }))]);
    TestApp::start_with(replies(&[ring, says("It said: {{results}}")]), asks()).await
}

/// The message of a client that has decided on the call of the reply.
pub(super) fn decision(asked: &[Value], mut approval: Value) -> Value {
    approval["id"] = json!("toolu_1");
    let part = json!({ "type": "dynamic-tool", "toolName": "ring", "toolCallId": "toolu_1",
                       "state": "approval-responded", "input": {}, "approval": approval,
                       "providerExecuted": true });
    let parts = json!([{ "type": "step-start" }, part]);
    json!({ "message": { "id": asked[0]["messageId"], "role": "assistant", "parts": parts } })
}
