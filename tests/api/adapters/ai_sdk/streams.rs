//! Resumed and stopped streams.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::chat::{chunks, parsed};
use super::chunks::approval_service;
use super::{Chat, kinds, of_type, user};
use crate::support::{Setup, TestApp, hangs_first, replies, says};

async fn resume(chat: &Chat<'_>) -> reqwest::Response {
    chat.app.get(&chat.path("/stream")).send().await.unwrap()
}

async fn stop(chat: &Chat<'_>, body: Value) -> Value {
    let response = chat.app.post(&chat.path("/stop")).json(&body).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response.json().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_resumed_when_nothing_runs() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let chat = Chat::new(&app);
    assert_eq!(resume(&chat).await.status(), StatusCode::NO_CONTENT);
    chat.ask("m1", "Hi").await;
    assert_eq!(resume(&chat).await.status(), StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_resumed_while_a_call_waits() {
    let app = approval_service().await;
    let chat = Chat::new(&app);
    chat.ask("m1", "Ring").await;
    assert_eq!(resume(&chat).await.status(), StatusCode::NO_CONTENT);
    let messages = chat.messages().await;
    assert_eq!(messages[1]["parts"][1]["state"], "approval-requested");
    assert_eq!(messages[1]["parts"][1]["approval"], json!({ "id": "toolu_1" }));
    stop(&chat, json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_answer_is_replayed_from_its_start_and_can_be_stopped() {
    let app = TestApp::start(hangs_first()).await;
    let chat = Chat::new(&app);
    let live = chat.request(json!({ "message": user("m1", "hang") })).send().await.unwrap();
    let roles: Vec<Value> = chat.messages().await.iter().map(|it| it["role"].clone()).collect();
    assert_eq!(roles, ["user"]);
    let resumed = resume(&chat).await;
    assert_eq!(resumed.headers()["x-vercel-ai-ui-message-stream"], "v1");

    // A stream of another message is not stopped.
    let other = json!({ "activeStreamId": "msg_run_00000000000070008000000000000000" });
    assert_eq!(stop(&chat, other).await, json!({ "success": true }));
    assert_eq!(resume(&chat).await.status(), StatusCode::OK);

    let forged = json!({ "assistantMessage": { "id": "x", "role": "assistant", "parts": [] } });
    assert_eq!(stop(&chat, forged).await, json!({ "success": true }));
    assert_eq!(resume(&chat).await.status(), StatusCode::NO_CONTENT);
    let (live, resumed) = (chunks(live).await, chunks(resumed).await);
    for chunks in [&live, &resumed] {
        assert_eq!(kinds(chunks)[..2], ["start", "start-step"]);
        assert_eq!(chunks.last().unwrap(), &json!({ "type": "abort" }));
    }
    assert_eq!(live[0], resumed[0]);
    let next = chat.ask("m2", "Hello").await;
    assert_eq!(next.last().unwrap()["finishReason"], "stop");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_message_passes_over_a_call_that_waits() {
    let app = approval_service().await;
    let chat = Chat::new(&app);
    let asked = chat.ask("m1", "Ring").await;
    app.play(&replies(&[says("Hello.")]));
    let next = chat.ask("m2", "Hi").await;
    assert_eq!(next.last().unwrap()["finishReason"], "stop");
    assert_ne!(next[0]["messageId"], asked[0]["messageId"]);
    assert_eq!(chat.runs(&chat.session().await).await[0]["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_stream_is_kept_alive() {
    let every = Some(std::time::Duration::from_millis(100));
    let setup = Setup { keep_alive_every: every, ..Setup::default() };
    let app = TestApp::start_with(hangs_first(), setup).await;
    let chat = Chat::new(&app);
    let mut live = chat.request(json!({ "message": user("m1", "hang") })).send().await.unwrap();
    let mut text = String::new();
    while !text.contains("\n:\n") {
        text.push_str(std::str::from_utf8(&live.chunk().await.unwrap().unwrap()).unwrap());
    }
    stop(&chat, json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_position_of_a_queued_run_is_a_transient_part() {
    let setup = Setup { slots: Some(1), ..Setup::default() };
    let app = TestApp::start_with(hangs_first(), setup).await;
    let (first, second) = (Chat::new(&app), Chat { app: &app, id: "chat-2" });
    let hanging = first.request(json!({ "message": user("m1", "hang") })).send().await.unwrap();
    let mut queued =
        second.request(json!({ "message": user("m1", "Hello") })).send().await.unwrap();
    let mut text = String::new();
    while !text.contains("data-status") {
        text.push_str(std::str::from_utf8(&queued.chunk().await.unwrap().unwrap()).unwrap());
    }
    stop(&first, json!({})).await;
    drop(hanging);
    text.push_str(&queued.text().await.unwrap());
    let chunks = parsed(&text);
    let states = of_type(&chunks, "data-status");
    let position = json!({ "status": "queued", "position": 1, "length": 1 });
    assert_eq!(states[0], &json!({ "type": "data-status", "data": position, "transient": true }));
    assert_eq!(states.last().unwrap()["data"], json!({ "status": "running" }));
    assert_eq!(chunks.last().unwrap()["finishReason"], "stop");
}
