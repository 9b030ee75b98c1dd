//! Uploaded files: checked by their content, referred to by messages, deleted with their session.

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::support::{Session, TestApp, media, problem, replies, says};

fn upload(app: &TestApp, path: &str, kind: &str, bytes: &[u8]) -> RequestBuilder {
    app.post(path).header("content-type", kind).body(bytes.to_vec())
}

async fn uploaded(app: &TestApp, kind: &str, bytes: &[u8]) -> String {
    let response = upload(app, "/v1/files", kind, bytes).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let file: Value = response.json().await.unwrap();
    assert_eq!((&file["type"], &file["session_id"]), (&json!("file"), &Value::Null));
    assert_eq!(file["size"], bytes.len());
    let id = file["id"].as_str().unwrap().to_owned();
    assert!(location.ends_with(&format!("/files/{id}")), "{location}");
    id
}

fn refers(kind: &str, id: &str) -> Value {
    json!([{ "type": kind, "source": { "type": "file", "file_id": id } },
           { "type": "text", "text": "What is this?" }])
}

async fn status(request: RequestBuilder) -> StatusCode {
    request.send().await.unwrap().status()
}

async fn delete(session: &Session<'_>) {
    let request = session.app.client.delete(session.app.url(&session.path("")));
    assert_eq!(status(request).await, StatusCode::NO_CONTENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_receives_the_content_and_the_history_has_the_reference() {
    let app = TestApp::start(replies(&[says("A picture.")])).await;
    let session = app.session().await;
    let png = media::png(2, 2);
    let id = uploaded(&app, "image/png", &png).await;
    for _ in 0..2 {
        let run = session.ask_with(json!({ "content": refers("image", &id) })).await;
        assert_eq!(run["status"], "completed");
    }
    let source = json!({ "type": "file", "file_id": id });
    let history = session.history().await;
    assert_eq!(history[0]["message"]["content"][0]["source"], source);
    let events = session.events().await;
    assert_eq!(events[0]["content"][0]["text"], format!("[image {id}]"));
    for index in 0..app.upstream().len() {
        let sent = app.upstream().text(index);
        assert!(sent.contains("base64") && !sent.contains(&id), "{sent}");
    }
    // Each request repeats the one before.
    let runs = app.get(&session.path("/runs")).send().await.unwrap().json::<Value>().await.unwrap();
    let last = runs["data"][1]["id"].as_str().unwrap();
    let request = app.get(&session.path(&format!("/runs/{last}/requests/1"))).send().await.unwrap();
    let request: Value = request.json().await.unwrap();
    let body = request["body"].to_string();
    assert!(body.contains("base64") && !body.contains(&id), "{body}");

    let content = app.get(&format!("/v1/files/{id}/content")).send().await.unwrap();
    assert_eq!(content.headers()["content-type"], "image/png");
    assert_eq!(content.bytes().await.unwrap(), png);
    let file = app.get(&format!("/v1/files/{id}")).send().await.unwrap();
    assert_eq!(file.json::<Value>().await.unwrap()["session_id"], session.id);
    delete(&session).await;
    problem(app.get(&format!("/v1/files/{id}")).send().await.unwrap(), 404, "file_not_found").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_file_is_a_text_for_the_model() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let session = app.session().await;
    let id = uploaded(&app, "text/plain", "Grüße".as_bytes()).await;
    session.ask_with(json!({ "content": refers("document", &id) })).await;
    assert!(app.upstream().text(0).contains("Grüße"));
    let path = app.url(&format!("/v1/files/{id}"));
    assert_eq!(status(app.client.delete(&path)).await, StatusCode::NO_CONTENT);
    assert_eq!(status(app.client.delete(&path)).await, StatusCode::NOT_FOUND);
    assert_eq!(session.ask("And now?").await["status"], "completed");
    let again = app.session().await;
    let gone = again.message(&json!({ "content": refers("document", &id) }));
    problem(gone.send().await.unwrap(), 422, "validation_failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_another_session_or_of_the_wrong_type_is_refused() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let [session, other] = [app.session().await, app.session().await];
    let path = session.path("/files?name=a.png");
    let file = upload(&app, &path, "application/octet-stream", &media::png(2, 2));
    let file: Value = file.send().await.unwrap().json().await.unwrap();
    assert_eq!((&file["media_type"], &file["name"]), (&json!("image/png"), &json!("a.png")));
    let id = file["id"].as_str().unwrap();
    for (session, kind, text) in [
        (&other, "image", "is not a file that the session may use"),
        (&session, "document", "is image/png, which is not a document"),
    ] {
        let message = session.message(&json!({ "content": refers(kind, id) }));
        let refused = problem(message.send().await.unwrap(), 422, "validation_failed").await;
        let expected = json!({ "pointer": "/content/0/source/file_id", "message": text });
        assert_eq!(refused["errors"][0], expected);
    }
    let content = |session: &Session<'_>| app.get(&session.path(&format!("/files/{id}/content")));
    assert_eq!(status(content(&session)).await, StatusCode::OK);
    assert_eq!(status(content(&other)).await, StatusCode::NOT_FOUND);
    let run = session.ask_with(json!({ "content": refers("image", id) })).await;
    assert_eq!(run["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_message_refers_to_a_file() {
    let app = TestApp::start(crate::support::hangs_first()).await;
    let session = app.session().await;
    let id = uploaded(&app, "image/png", &media::png(2, 2)).await;
    let first = session.post(json!({ "content": "hang" })).await;
    let queued = session.post(json!({ "content": refers("image", &id) })).await;
    session.cancel(&first).await;
    assert_eq!(session.settled(&queued).await["status"], "completed");
    let sent = app.upstream().text(app.upstream().len() - 1);
    assert!(sent.contains("base64") && !sent.contains(&id), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_other_types_are_refused() {
    let app = TestApp::start(replies(&[])).await;
    for (kind, bytes) in [
        ("image/png", &b"GIF89a\x10\x00\x10\x00\x00\x00\x00\x00"[..]),
        ("application/zip", &b"PK\x03\x04\x00"[..]),
        ("text/plain", &b""[..]),
        ("text/plain", &b"\xff\xfe\x00"[..]),
    ] {
        let refused = upload(&app, "/v1/files", kind, bytes).send().await.unwrap();
        problem(refused, 422, "validation_failed").await;
    }
    let unknown = "/v1/files?session_id=ses_0193a7c2b8f07d3c9e41f2a6b5c8d7e0";
    let refused = upload(&app, unknown, "text/plain", b"Hello").send().await.unwrap();
    problem(refused, 404, "session_not_found").await;
}
