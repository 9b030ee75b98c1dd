//! Each failure of a model server says its own thing: the run, the record of the request and the
//! explanation name the kind, the message of the provider and the remedy.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::support::{
    Program, Session, TestApp, binary, client_with, data_dir, database, replies, says,
};

/// The refusal of a `max_tokens` that is too large.
const TOO_MANY: &str = "max_tokens: 100000 > 64000, which is the maximum allowed number of output \
                        tokens for claude-opus-4-1";

/// The record of the only request of a run.
async fn request(session: &Session<'_>, run: &Value) -> Value {
    let path = session.path(&format!("/runs/{}/requests", run["id"].as_str().unwrap()));
    let page: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
    let [request] = page["data"].as_array().unwrap().as_slice() else { panic!("{page}") };
    request.clone()
}

async fn explanation(session: &Session<'_>, run: &Value) -> String {
    let path = session.path(&format!("/runs/{}/explain", run["id"].as_str().unwrap()));
    let page: Value = session.app.get(&path).send().await.unwrap().json().await.unwrap();
    page["sentence"].as_str().unwrap().to_owned()
}

/// A script that refuses the message `go` like this and answers all others.
fn refuses(status: u16, kind: &str, message: &str) -> Value {
    let error = json!({ "type": kind, "message": message });
    json!({ "conversations": [
        { "when": "go", "replies": [{ "status": status, "error": error }] },
        { "replies": [says("Hello.")] },
    ], "otherwise": "refuse" })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_its_request_and_its_explanation_name_the_cause_and_the_remedy() {
    let key = "invalid x-api-key";
    let app = TestApp::start(refuses(401, "authentication_error", key)).await;
    let table = [
        (
            json!({ "model": "no-such-model" }),
            "not_found_error",
            "model: no-such-model".to_owned(),
            "check the model of the session, which the API key must permit, and the base URL of the \
             model's server",
        ),
        (
            json!({ "model": "claude-opus-4-1", "max_tokens": 100_000 }),
            "invalid_request_error",
            TOO_MANY.to_owned(),
            "lower max_tokens of the session",
        ),
        (
            json!({}),
            "authentication_error",
            key.to_owned(),
            "the operator must give the service a valid API key of the model's server",
        ),
    ];
    for (settings, reason, said, remedy) in table {
        let session = app.session_with(settings).await;
        let run = session.ask(&format!("go {}", session.id)).await;
        let error = json!({
            "type": "model_request_failed_error",
            "reason": reason,
            "provider_message": said,
            "message": format!("the model answered with {reason}: {said}; {remedy}"),
        });
        assert_eq!(
            json!([run["status"], run["stop_reason"], run["error"]]),
            json!(["failed", { "type": "error" }, error])
        );
        let request = request(&session, &run).await;
        assert_eq!(request["error"], error);
        let attempt = &request["attempts"][0];
        assert_eq!(
            json!([attempt["error"], attempt["message"], request["attempts"][1]]),
            json!([reason, said, null])
        );
        let sentence = explanation(&session, &run).await;
        assert!(
            sentence.ends_with(&format!(": {}.", error["message"].as_str().unwrap())),
            "{sentence}"
        );
    }
    app.end_refused(&["model: no-such-model", TOO_MANY]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_the_provider_is_shown_without_keys_on_one_line() {
    let quoted = "Incorrect API key provided: sk-proj-abc***xyz.\nFind your key.";
    let app = TestApp::start(refuses(401, "authentication_error", quoted)).await;
    let session = app.session().await;
    let run = session.ask("go").await;
    let shown = "Incorrect API key provided: [key] Find your key.";
    assert_eq!(run["error"]["provider_message"], shown);
    let kept = json!([session.events().await, request(&session, &run).await]).to_string();
    assert!(!kept.contains("sk-proj"), "{kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_retries_of_a_run_are_exhausted_only_after_retries() {
    let soon = json!({ "status": 529, "headers": { "retry-after-ms": "5" },
                       "error": { "type": "overloaded_error", "message": "Overloaded" } });
    let app = TestApp::start(replies(&[soon])).await;
    let session = app.session().await;
    let run = session.ask("go").await;
    assert_eq!(run["stop_reason"], json!({ "type": "retries_exhausted" }));
    assert_eq!(
        run["error"]["message"],
        "the model answered with overloaded_error: Overloaded; retry the run later"
    );
    assert_eq!(request(&session, &run).await["attempts"].as_array().unwrap().len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_named_in_the_record_of_the_request() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let (database, folder) = (database().await, data_dir());
    let mut command = binary(&["serve", "--bind", "127.0.0.1:0", "--refresh-models=false"]);
    command.args(["--anthropic-base-url", &format!("http://127.0.0.1:{port}")]);
    command.arg("--data-dir").arg(folder.path());
    command.env("DATABASE_URL", database.url()).env("ANTHROPIC_API_KEY", "planted-model-key");
    let program = Program::serve(command).await;
    let client = client_with(None);
    let url = format!("{}/v1/sessions", program.url);
    let session: Value = client.post(&url).send().await.unwrap().json().await.unwrap();
    let session = format!("{url}/{}", session["id"].as_str().unwrap());
    // The time limit ends the wait before a retry; the second request is the last.
    let body = json!({ "content": "Are you there?", "limits": { "seconds": 1 } });
    let post = client.post(format!("{session}/messages")).json(&body).send().await.unwrap();
    let run: Value = post.json().await.unwrap();
    let run = format!("{session}/runs/{}", run["id"].as_str().unwrap());
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
    let request = loop {
        let page = client.get(format!("{run}/requests")).send().await.unwrap();
        let page: Value = page.json().await.unwrap();
        if let Some(request) = page["data"].get(0) {
            break request.clone();
        }
        assert!(tokio::time::Instant::now() < deadline, "no request was recorded");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    let attempt = &request["attempts"][0];
    assert_eq!(
        json!([attempt["error"], attempt["message"]]),
        json!(["connect", "the connection was refused"])
    );
    program.terminate().await;
}
