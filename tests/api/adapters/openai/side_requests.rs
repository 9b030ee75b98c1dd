//! Requests that chat pages send on the side of a conversation.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{chunks, complete, post, runs, session_of, text, user};
use crate::support::{TestApp, replies, says};

const TITLE: &str = "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n### Output:\nJSON format: { \"title\": \"your concise title here\" }\n### Chat History:\n<chat_history>\nUSER: Hello\n</chat_history>";
const LIBRECHAT: &str = "Provide a concise, 5-word-or-less title for the conversation, using its same language, with no punctuation.\n\nConversation:\nUser: Hello";

async fn sessions(app: &TestApp) -> Vec<Value> {
    let page: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_title_is_no_turn_of_the_conversation_and_leaves_no_session() {
    let app = TestApp::start(replies(&[says("Hello there.")])).await;
    let named = json!({ "metadata": { "session_id": "chat-1" } });
    let first = complete(&app, &[user("Hello")], named.clone()).await;
    let session = first["session"].as_str().unwrap();
    for (prompt, is_stream) in [(TITLE, false), (LIBRECHAT, true)] {
        let others = json!({ "stream": is_stream, "max_tokens": 50, "model": "default" });
        let request = post(&app, &[user(prompt)], others).header("x-openwebui-chat-id", "chat-1");
        let response = request.send().await.unwrap();
        assert_eq!((response.status().as_u16(), session_of(&response)), (200, String::new()));
        let body = response.text().await.unwrap();
        if is_stream {
            assert!(chunks(&body).len() > 1);
        } else {
            assert_eq!(text(&serde_json::from_str(&body).unwrap()), "Hello there.");
        }
    }
    let named =
        complete(&app, &[user("A title, please")], json!({ "model": "default-title" })).await;
    assert_eq!(named["session"], "");
    assert_eq!(runs(&app, session).await.len(), 1);
    let deadline = Instant::now() + Duration::from_secs(20);
    while sessions(&app).await.len() > 1 {
        assert!(Instant::now() < deadline, "a session is left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The tools of the service are not offered for a title.
    let sent: Value = app.upstream().body(1);
    assert!(sent.get("tools").is_none_or(|tools| *tools == json!([])), "{sent}");
}
