//! Images and files in messages.

use serde_json::{Value, json};

use super::client::{create, post, refusal, success, text};
use crate::adapters::openai::complete;
use crate::support::{TestApp, media, replies, says};

async fn uploaded(app: &TestApp, bytes: &[u8]) -> String {
    let file = app.post("/v1/files").body(bytes.to_vec()).send().await.unwrap();
    file.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn uploaded_and_inline_files_reach_the_model() {
    let app = TestApp::start(replies(&[says("Nice.")])).await;
    let png = uploaded(&app, &media::png(2, 2)).await;
    let note = uploaded(&app, b"The plan is simple.").await;
    let pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let parts = json!([
        { "type": "input_text", "text": "Look" },
        { "type": "input_image", "file_id": png, "detail": "auto" },
        { "type": "input_image", "image_url": pixel },
        { "type": "input_file", "file_id": note },
    ]);
    let input = json!([{ "role": "user", "content": parts }]);
    assert_eq!(text(&create(&app, input, json!({})).await), "Nice.");
    let sent = app.upstream().text(0);
    assert_eq!(sent.matches(r#""type":"base64""#).count(), 2, "{sent}");
    assert!(sent.contains("The plan is simple.") && !sent.contains(&note), "{sent}");
    let wrong = json!([{ "role": "user", "content": [{ "type": "input_file", "file_id": png }] }]);
    let refused = refusal(post(&app, &wrong, &json!({}))).await;
    assert_eq!((refused.0, &*refused.1), (422, "validation_failed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_completions_refer_to_files_too() {
    let app = TestApp::start(replies(&[says("Nice.")])).await;
    let note = uploaded(&app, b"The plan is simple.").await;
    let parts = json!([{ "type": "file", "file": { "file_id": note } }, { "type": "text", "text": "Look" }]);
    let messages = [json!({ "role": "user", "content": parts })];
    complete(&app, &messages, json!({})).await;
    assert!(app.upstream().text(0).contains("The plan is simple."));
    let file = success(app.get(&format!("/v1/files/{note}"))).await;
    assert!(file["session_id"].is_string(), "{file}");
}
