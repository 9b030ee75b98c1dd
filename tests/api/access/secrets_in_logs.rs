//! Secrets and the content of sessions are not logged at any level.

use serde_json::{Value, json};
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::{
    Program, binary_logging_to, calls, client_with, data_dir, database, replies, says,
};

/// The content of a session: texts of the client and of the model.
const CONTENT: [&str; 5] =
    ["canary-system", "canary-prompt", "canary-input", "canary-title", "canary-answer"];

#[tokio::test(flavor = "multi_thread")]
async fn neither_secrets_nor_content_is_logged_at_level_trace() {
    let database = database().await;
    let folder = data_dir();
    let (log, script) = (folder.path().join("log"), folder.path().join("script.json"));
    let input = json!({ "path": "a.txt", "content": "canary-input" });
    let answers = replies(&[calls("write_file", input), says("canary-answer")]);
    std::fs::write(&script, answers.to_string()).unwrap();
    let mut command = binary_logging_to(
        &log,
        &["serve", "--offline", "--bind", "127.0.0.1:0", "--log", "trace", "--auth", "keys"],
    );
    command.arg("--script").arg(&script).arg("--data-dir").arg(folder.path());
    command.env("DATABASE_URL", database.url()).env("TWOSTEP_WEBHOOK_HOSTS", "public");
    let program = Program::serve(command).await;

    let key = database.key(TenantId::DEFAULT, Scope::Write).await;
    let client = client_with(Some(&key));
    let post = async |path: &str, body: Value| -> Value {
        let request = client.post(format!("{}{path}", program.url)).json(&body);
        let response = request.header("prefer", "wait=30").send().await.unwrap();
        assert!(response.status().is_success());
        response.json().await.unwrap()
    };
    let new = json!({ "system": "canary-system", "title": "canary-title" });
    let session = post("/v1/sessions", new).await;
    let path = format!("/v1/sessions/{}", session["id"].as_str().unwrap());
    let run = post(&format!("{path}/messages"), json!({ "content": "canary-prompt" })).await;
    assert_eq!(run["status"], "completed", "{run}");
    let ticket = post(&format!("{path}/tickets"), json!({})).await;
    let ticket = ticket["ticket"].as_str().unwrap();
    let new = json!({ "url": "https://receiver.example/a", "events": ["run.completed"] });
    let webhook = post("/v1/webhooks", new).await;
    let run = run["id"].as_str().unwrap();
    let stream = format!("{}{path}/runs/{run}/stream?ticket={ticket}", program.url);
    assert!(client_with(None).get(stream).send().await.unwrap().status().is_success());
    // A key in a query is refused, and must not be logged either.
    let elsewhere = client.get(format!("{}/v1/sessions?ticket={}", program.url, key.reveal()));
    assert_eq!(elsewhere.send().await.unwrap().status(), 400);
    program.terminate().await;

    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("request completed") && log.contains(&key.id().to_string()), "{log}");
    let whole = key.reveal();
    let secret = whole.rsplit_once('_').unwrap().1;
    let secrets =
        [secret, ticket, webhook["secret"].as_str().unwrap(), "planted-database-password"];
    for secret in secrets.into_iter().chain(CONTENT) {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_password_of_an_unusable_database_url_is_masked() {
    let mut command = crate::support::binary(&["worker", "--log-format", "json", "--offline"]);
    command.env("DATABASE_URL", "postgres://me:planted-other-password@127.0.0.1:1/db");
    let (status, _, stderr) = crate::support::outcome(command).await;
    assert_eq!(status, Some(1), "{stderr}");
    assert!(!stderr.contains("planted-"), "{stderr}");
}
