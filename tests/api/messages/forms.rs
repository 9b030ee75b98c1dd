//! Uploads as forms (`multipart/form-data`), natively and in the protocols of OpenAI and Anthropic.

use reqwest::{RequestBuilder, StatusCode};
use serde_json::{Value, json};

use crate::support::{TestApp, media, problem, replies};

/// A form with a field before the file.
fn form(disposition: &str, kind: &str, bytes: &[u8]) -> Vec<u8> {
    let head = format!(
        "--limit\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nuser_data\r\n--limit\r\n\
         Content-Disposition: form-data; {disposition}\r\nContent-Type: {kind}\r\n\r\n"
    );
    [head.as_bytes(), bytes, b"\r\n--limit--\r\n"].concat()
}

fn upload(app: &TestApp, path: &str, form: Vec<u8>) -> RequestBuilder {
    app.post(path).header("content-type", "multipart/form-data; boundary=limit").body(form)
}

async fn body(request: RequestBuilder, status: StatusCode) -> Value {
    let response = request.send().await.unwrap();
    let (found, text) = (response.status(), response.text().await.unwrap());
    assert_eq!(found, status, "{text}");
    serde_json::from_str(&text).unwrap()
}

const NOTE: &str = "name=\"file\"; filename=\"plan.md\"";

#[tokio::test(flavor = "multi_thread")]
async fn the_file_of_a_form_is_stored_with_its_name() {
    let app = TestApp::start(replies(&[])).await;
    let session = app.session().await;
    let png = media::png(2, 2_000_000);
    let image = "name=\"file\"; filename=\"\u{e4}.png\"";
    for (path, disposition, kind, bytes, name, stored) in [
        (
            "/v1/files",
            NOTE,
            "text/markdown",
            b"# Plan\r\n--limi".as_slice(),
            "plan.md",
            "text/plain",
        ),
        ("/v1/files?name=own", NOTE, "application/octet-stream", b"Plan", "own", "text/plain"),
        (&*session.path("/files"), image, "image/png", &png, "\u{e4}.png", "image/png"),
    ] {
        let form = form(disposition, kind, bytes);
        let file = body(upload(&app, path, form), StatusCode::CREATED).await;
        assert_eq!((&file["name"], &file["media_type"]), (&json!(name), &json!(stored)));
        let content = app.get(&format!("/v1/files/{}/content", file["id"].as_str().unwrap()));
        assert_eq!(content.send().await.unwrap().bytes().await.unwrap(), bytes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_has_the_checks_of_a_file() {
    let app = TestApp::start(replies(&[])).await;
    let png = media::png(2, 2);
    let half = form(NOTE, "text/plain", b"Plan");
    for form in [
        form(NOTE, "image/gif", &png),
        form(NOTE, "text/plain", &png),
        form(NOTE, "text/plain", b""),
        form("name=\"other\"", "text/plain", b"Plan"),
        half[..half.len() - 14].to_vec(),
    ] {
        let refused = upload(&app, "/v1/files", form).send().await.unwrap();
        problem(refused, 422, "validation_failed").await;
    }
    let unnamed = app.post("/v1/files").header("content-type", "multipart/form-data");
    let unnamed = unnamed.body("--limit--").send().await.unwrap();
    problem(unnamed, 422, "validation_failed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_protocols_of_openai_and_anthropic_have_the_same_files() {
    let app = TestApp::start(replies(&[])).await;
    for (base, name, size, kind, value) in [
        ("/openai/v1/files", "filename", "bytes", "object", "file"),
        ("/anthropic/v1/files", "filename", "size_bytes", "type", "file"),
    ] {
        let file =
            body(upload(&app, base, form(NOTE, "text/markdown", b"Plan")), StatusCode::OK).await;
        assert_eq!(
            (&file[name], &file[size], &file[kind]),
            (&json!("plan.md"), &json!(4), &json!(value))
        );
        let path = format!("{base}/{}", file["id"].as_str().unwrap());
        assert_eq!(body(app.get(&path), StatusCode::OK).await, file);
        let content = app.get(&format!("{path}/content")).send().await.unwrap();
        assert_eq!(content.headers()["content-type"], "text/plain");
        assert_eq!(content.text().await.unwrap(), "Plan");
        let native = format!("/v1/files/{}", file["id"].as_str().unwrap());
        assert_eq!(body(app.get(&native), StatusCode::OK).await["name"], "plan.md");
        let deleted = body(app.client.delete(app.url(&path)), StatusCode::OK).await;
        assert_eq!(deleted["id"], file["id"]);
        let gone = body(app.get(&path), StatusCode::NOT_FOUND).await;
        assert!(gone["error"]["message"].is_string(), "{gone}");
    }
}
