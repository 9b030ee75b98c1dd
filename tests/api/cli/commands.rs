//! The commands of operators, as processes: output and exit status.

use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::{Program, binary, data_dir, database, outcome, problem};

const LOOPBACK: &str = "127.0.0.1:0";

fn client() -> Client {
    // Fails if another test of this process has installed a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().build().unwrap()
}

async fn ask(url: &str, session: &str, text: &str) -> Value {
    let response = client()
        .post(format!("{url}/v1/sessions/{session}/messages"))
        .header("prefer", "wait=30")
        .json(&json!({ "content": text }))
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response.json().await.unwrap()
}

async fn new_session(url: &str) -> String {
    let response = client().post(format!("{url}/v1/sessions")).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    let session: Value = response.json().await.unwrap();
    session["id"].as_str().unwrap().to_owned()
}

/// Asserts that the program fails with one line on stderr, which contains these parts, and nothing
/// on stdout.
async fn assert_fails(args: &[&str], expected: &[&str]) {
    let (status, stdout, stderr) = outcome(binary(args)).await;
    assert_eq!((status, stdout.as_str()), (Some(1), ""), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    assert!(stderr.starts_with("twostep: "), "{stderr}");
    for part in expected {
        assert!(stderr.contains(part), "{part:?} is not in {stderr:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_key_serve_fails_and_names_both_remedies() {
    assert_fails(&["serve", "--bind", LOOPBACK], &["ANTHROPIC_API_KEY", "--offline"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_public_address_requires_keys_or_open_to_all() {
    let database = database().await;
    let url = database.url();
    let bind = ["serve", "--offline", "--bind", "0.0.0.0:0", "--database-url", &url, "--auth"];
    let serve = |auth| [&bind[..], &[auth]].concat();
    assert_fails(&serve("open"), &["0.0.0.0:0", "--auth keys", "--auth open-to-all"]).await;
    assert_fails(&serve("keys"), &["0.0.0.0:0", "twostep keys create"]).await;

    let program = Program::serve(binary(&serve("open-to-all"))).await;
    assert!(
        program.url.starts_with("http://127.0.0.1:"),
        "not a loopback address: {}",
        program.url
    );
    new_session(&program.url).await;
    program.terminate().await;

    database.key(TenantId::DEFAULT, Scope::Read).await;
    let program = Program::serve(binary(&serve("keys"))).await;
    let response = client().post(format!("{}/v1/sessions", program.url)).send().await.unwrap();
    problem(response, 401, "unauthenticated").await;
    program.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_script_is_named() {
    let folder = data_dir();
    let database = database().await;
    let url = database.url();
    let path = folder.path().join("wrong.json");
    let name = path.to_str().unwrap();
    let serve = |script| {
        let bind = ["serve", "--offline", "--bind", LOOPBACK];
        [&bind[..], &["--database-url", &url, "--script", script]].concat()
    };
    assert_fails(&serve("/no/such/script.json"), &["/no/such/script.json"]).await;
    std::fs::write(&path, r#"{ "conversation": [] }"#).unwrap();
    assert_fails(&serve(name), &[name, "conversation"]).await;
    let simulator = ["simulator", "--bind", LOOPBACK, "--script", name];
    assert_fails(&simulator, &[name, "conversation"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_named() {
    let listener = TcpListener::bind(LOOPBACK).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let database = database().await;
    let url = database.url();
    let serve = ["serve", "--offline", "--bind", &address, "--database-url", &url];
    assert_fails(&serve, &[&address, "in use"]).await;
    assert_fails(&["simulator", "--bind", &address], &[&address, "in use"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_permission_options_are_named_at_the_start() {
    let folder = data_dir();
    let file = folder.path().join("rules.json");
    let name = file.to_str().unwrap();
    let serve = |option, value| ["serve", "--offline", "--bind", LOOPBACK, option, value];
    let rule = |rule| std::fs::write(&file, format!("{{\"rules\":[{rule}]}}")).unwrap();
    rule(r#"{"tool":"Bash","decision":"deny","input":{"command":"a | b"}}"#);
    let parts = [name, "rule 0", "Bash", "command does not consist of plain words"];
    assert_fails(&serve("--permission-rules", name), &parts).await;
    rule(r#"{"tool":"Bash","decision":"perhaps"}"#);
    assert_fails(&serve("--permission-rules", name), &[name, "perhaps"]).await;
    assert_fails(&serve("--permission-mode", "bypass"), &["--allow-bypass"]).await;
    let url = "file:///tmp/evaluate";
    assert_fails(&serve("--permission-url", url), &[url]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_providers_are_checked_at_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let name = file.path().to_str().unwrap();
    let serve = ["serve", "--bind", LOOPBACK, "--provider", "openai", "--model", "a"];
    let url = ["--openai-base-url", "http://127.0.0.1:1/v1", "--model-providers", name];
    let serve = [&serve[..], &url].concat();
    let gateway = json!({ "protocol": "anthropic", "base_url": "http://127.0.0.1:1",
                          "api_key_env": "TWOSTEP_KEY_OF_THE_GATEWAY" });
    std::fs::write(name, json!({ "gateway": gateway }).to_string()).unwrap();
    let missing = "TWOSTEP_KEY_OF_THE_GATEWAY is not set";
    assert_fails(&serve, &["the model provider \"gateway\"", missing]).await;
    assert_fails(
        &["serve", "--bind", LOOPBACK, "--offline", "--model-providers", name],
        &["--offline", "--model-providers"],
    )
    .await;
    std::fs::write(name, json!({ "gate/way": gateway }).to_string()).unwrap();
    assert_fails(&serve, &[name, "\"gate/way\" is not 1 to 32"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_database_url_do_not_contain_the_password() {
    let serve = ["serve", "--offline", "--bind", LOOPBACK];
    let (status, _, stderr) = outcome({
        let mut command = binary(&serve);
        command.env("DATABASE_URL", "mysql://root:hunter2@localhost/x");
        command
    })
    .await;
    assert_eq!(status, Some(1));
    assert!(stderr.contains("DATABASE_URL"), "{stderr}");
    assert!(!stderr.contains("hunter2"), "{stderr}");

    let unreachable = "postgres://root:hunter2@127.0.0.1:1/x";
    let (status, _, stderr) =
        outcome(binary(&[&serve[..], &["--database-url", unreachable]].concat())).await;
    assert_eq!(status, Some(1));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(!stderr.contains("hunter2"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_database_keeps_its_data_across_restarts() {
    let folder = data_dir();
    let serve = || {
        binary(&[
            "serve",
            "--offline",
            "--bind",
            LOOPBACK,
            "--data-dir",
            folder.path().to_str().unwrap(),
        ])
    };
    let first = Program::serve(serve()).await;
    let url = first.url.clone();
    for expected in [
        format!("url        {url}"),
        format!("data in {}/postgres", folder.path().display()),
        "model      simulator: scripted answers, not a language model".to_owned(),
        format!("curl -N {url}/v1/sessions/$S/messages -H 'Accept: text/event-stream'"),
    ] {
        assert!(first.greeting.contains(&expected), "{expected:?}: {}", first.greeting);
    }
    let session = new_session(&url).await;
    let run = ask(&url, &session, "What time is it?").await;
    assert_eq!(run["status"], "completed");
    assert_eq!(run["model_requests"], 2, "a tool was not called");
    let (status, took) = first.terminate().await;
    assert_eq!(status.code(), Some(0));
    // Active runs would have 20 s.
    assert!(took < Duration::from_secs(20), "the service stopped after {took:?}");

    let second = Program::serve(serve()).await;
    let path = format!("{}/v1/sessions/{session}/runs/{}", second.url, run["id"].as_str().unwrap());
    let stored: Value = client().get(path).send().await.unwrap().json().await.unwrap();
    assert_eq!(stored, run);
    let run = ask(&second.url, &session, "And what time is it now?").await;
    assert_eq!(run["status"], "completed");
    assert_eq!(second.terminate().await.0.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_data_folder_is_used_by_one_process_at_a_time() {
    let folder = data_dir();
    let name = folder.path().to_str().unwrap();
    let serve = ["serve", "--offline", "--bind", LOOPBACK, "--data-dir", name];
    let first = Program::serve(binary(&serve)).await;
    assert_fails(&serve, &[name, "in use"]).await;
    let session = new_session(&first.url).await;
    assert_eq!(ask(&first.url, &session, "Hello").await["status"], "completed");
    assert_eq!(first.terminate().await.0.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_database_url_no_private_database_is_created() {
    let (database, folder) = (database().await, data_dir());
    let name = folder.path().to_str().unwrap();
    let mut command = binary(&["serve", "--offline", "--bind", LOOPBACK, "--data-dir", name]);
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let session = new_session(&program.url).await;
    ask(&program.url, &session, "Hello").await;
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM runs WHERE status = 'completed'")
        .fetch_one(&database.pool(1))
        .await
        .unwrap();
    assert_eq!(count, 1);
    assert!(!folder.path().join("postgres").exists());
    assert_eq!(program.terminate().await.0.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn migrate_updates_an_empty_database_and_is_idempotent() {
    let folder = data_dir();
    let name = folder.path().to_str().unwrap();
    for _ in 0..2 {
        let (status, stdout, stderr) = outcome(binary(&["migrate", "--data-dir", name])).await;
        assert_eq!(status, Some(0), "{stderr}");
        let newest =
            twostep::store::MIGRATIONS.iter().map(|migration| migration.version).max().unwrap();
        assert_eq!(stdout, format!("the schema is at version {newest}\n"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openapi_document_is_printed_and_compared() {
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json");
    let (status, stdout, _) = outcome(binary(&["openapi"])).await;
    assert_eq!(status, Some(0));
    assert_eq!(stdout, std::fs::read_to_string(committed).unwrap());
    let (status, _, stderr) = outcome(binary(&["openapi", "--check", committed])).await;
    assert_eq!((status, stderr.as_str()), (Some(0), ""));

    let folder = data_dir();
    let changed = folder.path().join("openapi.json");
    std::fs::write(&changed, stdout.replace("/v1/tools", "/v1/tool")).unwrap();
    let changed = changed.to_str().unwrap();
    assert_fails(&["openapi", "--check", changed], &[changed]).await;
    let missing = "/no/such/openapi.json";
    assert_fails(&["openapi", "--check", missing], &[missing]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_check_fails_if_no_service_responds() {
    let database = database().await;
    let mut command = binary(&["serve", "--offline", "--bind", LOOPBACK]);
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let address = program.address().to_owned();
    let check = ["healthcheck", "--bind", &address];
    assert_eq!(outcome(binary(&check)).await, (Some(0), String::new(), String::new()));
    assert_eq!(program.terminate().await.0.code(), Some(0));
    assert_fails(&check, &["does not respond"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_active_run_does_not_prevent_the_service_from_stopping() {
    let (database, folder) = (database().await, data_dir());
    let script = folder.path().join("hangs.json");
    let hangs = json!({ "conversations": [{ "replies": [
        { "content": [{ "type": "text", "text": "Well" }], "hang_after": 4 }] }] });
    std::fs::write(&script, hangs.to_string()).unwrap();
    let script = script.to_str().unwrap();
    let drain = ["--drain-seconds", "1"];
    let mut command = binary(&["serve", "--offline", "--bind", LOOPBACK, "--script", script]);
    command.args(drain).env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let session = new_session(&program.url).await;
    let response = client()
        .post(format!("{}/v1/sessions/{session}/messages", program.url))
        .json(&json!({ "content": "Hello", "stream": true }))
        .send()
        .await
        .unwrap();
    let (status, took) = program.terminate().await;
    assert_eq!(status.code(), Some(0));
    // Without the option, the run would have 20 s.
    assert!(took < Duration::from_secs(20), "the service stopped after {took:?}");
    let body = response.bytes().await;
    assert!(body.is_err(), "the stream was closed as if it were complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_sets_the_default_of_on_busy_and_the_queue_limit() {
    let folder = data_dir();
    let database = database().await;
    let script = folder.path().join("hangs.json");
    std::fs::write(&script, r#"{"conversations":[{"replies":[{"hang_after":0}]}]}"#).unwrap();
    let mut command = binary(&["serve", "--offline", "--bind", LOOPBACK, "--script"]);
    command.arg(&script).env("DATABASE_URL", database.url());
    command.env("TWOSTEP_ON_BUSY", "reject").env("TWOSTEP_MAX_QUEUED", "0");
    let program = Program::serve(command).await;
    let session = new_session(&program.url).await;
    let messages = format!("{}/v1/sessions/{session}/messages", program.url);
    let post = async |body: Value| client().post(&messages).json(&body).send().await.unwrap();
    // With a queue of 0, a message is accepted only once the worker can start its run at once.
    let deadline = Instant::now() + Duration::from_mins(1);
    while post(json!({ "content": "Hang" })).await.status() != StatusCode::ACCEPTED {
        assert!(Instant::now() < deadline, "no message was accepted");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    problem(post(json!({ "content": "Again" })).await, 409, "session_busy").await;
    let queued = json!({ "content": "Again", "on_busy": "queue" });
    problem(post(queued).await, 429, "overloaded").await;
    program.terminate().await;
}
