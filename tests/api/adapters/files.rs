//! Uploaded files in messages of other protocols.

use serde_json::{Value, json};

use crate::support::{TestApp, media, replies, says};

async fn service() -> (TestApp, String) {
    let app = TestApp::start(replies(&[says("A picture.")])).await;
    let file = app.post("/v1/files").body(media::png(2, 2)).send().await.unwrap();
    let id = file.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned();
    (app, id)
}

/// Sends a request, and checks that the model has received the image.
async fn reaches(app: &TestApp, id: &str, path: &str, body: &Value) {
    let before = app.upstream().len();
    let response = app.post(path).json(body).send().await.unwrap();
    let (status, text) = (response.status(), response.text().await.unwrap());
    assert!(status.is_success(), "{text}");
    let sent = app.upstream().text(before);
    assert!(sent.contains(r#""type":"base64""#) && !sent.contains(id), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_the_ai_sdk_has_the_address_of_a_file() {
    let (app, id) = service().await;
    let origin = format!("https://agent.example/v1/files/{id}/content");
    let part = |url: &str| json!([{ "type": "file", "mediaType": "image/png", "url": url }]);
    for (message, url) in [("m1", format!("/v1/files/{id}/content")), ("m2", origin)] {
        let message = json!({ "id": message, "role": "user", "parts": part(&url) });
        reaches(&app, &id, "/ai-sdk/chat", &json!({ "id": "chat-1", "message": message })).await;
    }
    let history = app.get("/ai-sdk/chat/chat-1/messages").send().await.unwrap();
    let history: Value = history.json().await.unwrap();
    let url = history[0]["parts"][0]["url"].as_str().unwrap();
    assert!(url.starts_with("/v1/sessions/ses_") && url.contains(&id), "{url}");
    let content = app.get(url).send().await.unwrap();
    assert_eq!(content.headers()["content-type"], "image/png");
    // The part of the history can be sent again.
    let again = json!({ "id": "m3", "role": "user", "parts": part(url) });
    reaches(&app, &id, "/ai-sdk/chat", &json!({ "id": "chat-1", "message": again })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_ag_ui_has_the_id_or_the_address_of_a_file() {
    let (app, id) = service().await;
    let url = format!("/v1/files/{id}/content");
    for (message, part) in [
        ("m1", json!({ "type": "binary", "mimeType": "image/png", "id": id })),
        (
            "m2",
            json!({ "type": "image", "source": { "type": "url", "value": url, "mimeType": "image/png" } }),
        ),
    ] {
        let messages = json!([{ "id": message, "role": "user", "content": [part] }]);
        let body = json!({ "threadId": "t", "runId": message, "messages": messages, "state": {}, "context": [] });
        reaches(&app, &id, "/ag-ui", &body).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_managed_agents_refers_to_a_file() {
    let (app, id) = service().await;
    let session = app.post("/anthropic/v1/sessions").json(&json!({ "agent": "general" }));
    let session: Value = session.send().await.unwrap().json().await.unwrap();
    let session = session["id"].as_str().unwrap();
    let content = json!([{ "type": "image", "source": { "type": "file", "file_id": id } }]);
    let events = json!({ "events": [{ "type": "user.message", "content": content }] });
    let sent = app.post(&format!("/anthropic/v1/sessions/{session}/events")).json(&events);
    assert_eq!(sent.send().await.unwrap().status(), 200);
    let stream = app.get(&format!("/v1/sessions/{session}/runs")).send().await.unwrap();
    let run = stream.json::<Value>().await.unwrap()["data"][0]["id"].as_str().unwrap().to_owned();
    let run = app.get(&format!("/v1/sessions/{session}/runs/{run}")).header("prefer", "wait=20");
    assert_eq!(run.send().await.unwrap().json::<Value>().await.unwrap()["status"], "completed");
    assert!(app.upstream().text(0).contains(r#""type":"base64""#));
}
