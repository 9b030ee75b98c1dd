//! The history as messages of the AI SDK.

use serde_json::{Value, json};

use super::{Chat, of_type, user};
use crate::support::{TestApp, replies, says};

#[tokio::test(flavor = "multi_thread")]
async fn the_history_has_the_parts_that_the_stream_has_sent() {
    let calls = json!({ "content": [
        { "type": "thinking", "thinking": "Let me think." },
        { "type": "text", "text": "I look." },
        { "type": "tool_use", "id": "toolu_1", "name": "TodoWrite", "input": {
            "todos": [{ "id": "a", "content": "Look", "status": "in_progress" }] } },
        { "type": "tool_use", "id": "toolu_2", "name": "read_file", "input": { "path": "missing" } },
    ] });
    let app = TestApp::start(replies(&[calls, says("Done.")])).await;
    let chat = Chat::new(&app);
    let settings = json!({ "tools": ["TodoWrite", "read_file"] });
    let chunks = chat.send(json!({ "message": user("m1", "Look"), "settings": settings })).await;
    let messages = chat.messages().await;
    assert_eq!(messages[0], user("m1", "Look"));
    let reply = &messages[1];
    assert_eq!(reply["id"], chunks[0]["messageId"]);
    let usage = &of_type(&chunks, "message-metadata")[0]["messageMetadata"]["usage"];
    assert_eq!(&reply["metadata"]["usage"], usage);
    let parts: Vec<&Value> = reply["parts"].as_array().unwrap().iter().collect();
    let kinds: Vec<&Value> = parts.iter().map(|part| &part["type"]).collect();
    assert_eq!(
        kinds,
        [
            "step-start",
            "reasoning",
            "text",
            "dynamic-tool",
            "dynamic-tool",
            "data-todos",
            "step-start",
            "text"
        ]
    );
    assert_eq!(parts[2], &json!({ "type": "text", "text": "I look.", "state": "done" }));
    assert_eq!(
        (&parts[3]["state"], &parts[4]["state"]),
        (&json!("output-available"), &json!("output-error"))
    );
    assert_eq!(parts[5]["data"], of_type(&chunks, "data-todos")[0]["data"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_user_messages_are_complete() {
    let app = TestApp::start(replies(&[says("Nice.")])).await;
    let chat = Chat::new(&app);
    let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let message = json!({ "id": "m1", "role": "user", "parts": [
        { "type": "file", "mediaType": "image/png", "url": format!("data:image/png;base64,{pixel}") },
        { "type": "text", "text": "Look" },
    ] });
    chat.send(json!({ "message": message })).await;
    assert_eq!(chat.messages().await[0], message);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_conversation_has_no_history() {
    let app = TestApp::start(json!({})).await;
    let chat = Chat::new(&app);
    assert_eq!(app.get(&chat.path("/messages")).send().await.unwrap().status(), 404);
}
