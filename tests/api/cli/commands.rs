//! The program as an operator runs it: a real process, its words and its exit status.

use std::time::{Duration, Instant};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use twostep::domain::api_key::Scope;
use twostep::domain::ids::TenantId;

use crate::support::{Program, binary, data_dir, database, machine, outcome, problem};

const LOOPBACK: &str = "127.0.0.1:0";

fn client() -> Client {
    // A second test of the same process finds it installed.
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

/// The program fails at once, says why in one line on stderr, and nothing on stdout.
async fn refused(args: &[&str], expected: &[&str]) {
    let (status, stdout, stderr) = outcome(binary(args)).await;
    assert_eq!((status, stdout.as_str()), (Some(1), ""), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    assert!(stderr.starts_with("twostep: "), "{stderr}");
    for part in expected {
        assert!(stderr.contains(part), "{part:?} is not in {stderr:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_the_service_does_not_start_and_names_both_ways_on() {
    refused(&["serve", "--bind", LOOPBACK], &["ANTHROPIC_API_KEY", "--offline"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_others_can_reach_needs_keys_or_a_word() {
    let database = database().await;
    let url = database.url();
    let bind = ["serve", "--offline", "--bind", "0.0.0.0:0", "--database-url", &url, "--auth"];
    let serve = |auth| [&bind[..], &[auth]].concat();
    refused(&serve("open"), &["0.0.0.0:0", "--auth keys", "--auth open-to-all"]).await;
    refused(&serve("keys"), &["0.0.0.0:0", "twostep keys create"]).await;

    let program = Program::serve(binary(&serve("open-to-all"))).await;
    assert!(
        program.url.starts_with("http://127.0.0.1:"),
        "the address is one that can be used: {}",
        program.url
    );
    new_session(&program.url).await;
    program.terminate().await;

    database.key(TenantId::DEFAULT, Scope::Read).await;
    let program = Program::serve(binary(&serve("keys"))).await;
    let answer = client().post(format!("{}/v1/sessions", program.url)).send().await.unwrap();
    problem(answer, 401, "unauthenticated").await;
    program.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_cannot_be_used_is_named() {
    let folder = data_dir();
    let database = database().await;
    let url = database.url();
    let path = folder.path().join("wrong.json");
    let name = path.to_str().unwrap();
    let serve = |script| {
        let bind = ["serve", "--offline", "--bind", LOOPBACK];
        [&bind[..], &["--database-url", &url, "--script", script]].concat()
    };
    refused(&serve("/no/such/script.json"), &["/no/such/script.json"]).await;
    std::fs::write(&path, r#"{ "conversation": [] }"#).unwrap();
    refused(&serve(name), &[name, "conversation"]).await;
    let simulator = ["simulator", "--bind", LOOPBACK, "--script", name];
    refused(&simulator, &[name, "conversation"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_named() {
    let taken = TcpListener::bind(LOOPBACK).await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let database = database().await;
    let url = database.url();
    let serve = ["serve", "--offline", "--bind", &address, "--database-url", &url];
    refused(&serve, &[&address, "in use"]).await;
    refused(&["simulator", "--bind", &address], &[&address, "in use"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_that_cannot_be_used_are_named_at_the_start() {
    let folder = data_dir();
    let file = folder.path().join("rules.json");
    let name = file.to_str().unwrap();
    let serve = |option, value| ["serve", "--offline", "--bind", LOOPBACK, option, value];
    let rule = |rule| std::fs::write(&file, format!("{{\"rules\":[{rule}]}}")).unwrap();
    rule(r#"{"tool":"Bash","decision":"deny","input":{"command":"a | b"}}"#);
    let named = [name, "rule 0", "Bash", "command is not of plain words"];
    refused(&serve("--permission-rules", name), &named).await;
    rule(r#"{"tool":"Bash","decision":"perhaps"}"#);
    refused(&serve("--permission-rules", name), &[name, "perhaps"]).await;
    refused(&serve("--permission-mode", "bypass"), &["--allow-bypass"]).await;
    let url = "file:///tmp/judge";
    refused(&serve("--permission-url", url), &[url]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_one_is_refused_without_its_password() {
    let serve = ["serve", "--offline", "--bind", LOOPBACK];
    let (status, _, stderr) = outcome({
        let mut command = binary(&serve);
        command.env("DATABASE_URL", "mysql://root:geheim@localhost/x");
        command
    })
    .await;
    assert_eq!(status, Some(1));
    assert!(stderr.contains("DATABASE_URL"), "{stderr}");
    assert!(!stderr.contains("geheim"), "{stderr}");

    let nobody = "postgres://root:geheim@127.0.0.1:1/x";
    let (status, _, stderr) =
        outcome(binary(&[&serve[..], &["--database-url", nobody]].concat())).await;
    assert_eq!(status, Some(1));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(!stderr.contains("geheim"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_database_keeps_its_data_from_start_to_start() {
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
    for said in [
        format!("url        {url}"),
        format!("data in {}/postgres", folder.path().display()),
        "model      simulator: scripted answers, not a language model".to_owned(),
        format!("curl -N {url}/v1/sessions/$S/messages -H 'Accept: text/event-stream'"),
    ] {
        assert!(first.greeting.contains(&said), "{said:?}: {}", first.greeting);
    }
    let session = new_session(&url).await;
    let run = ask(&url, &session, "What time is it?").await;
    assert_eq!(run["status"], "completed");
    assert_eq!(run["model_requests"], 2, "a tool was used");
    let (status, took) = first.terminate().await;
    assert_eq!(status.code(), Some(0));
    assert!(took < machine::scaled(Duration::from_secs(10)), "it took {took:?} to end");

    let second = Program::serve(serve()).await;
    let path = format!("{}/v1/sessions/{session}/runs/{}", second.url, run["id"].as_str().unwrap());
    let kept: Value = client().get(path).send().await.unwrap().json().await.unwrap();
    assert_eq!(kept, run);
    let run = ask(&second.url, &session, "And what time is it now?").await;
    assert_eq!(run["status"], "completed");
    assert_eq!(second.terminate().await.0.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_data_folder_serves_one_process() {
    let folder = data_dir();
    let name = folder.path().to_str().unwrap();
    let serve = ["serve", "--offline", "--bind", LOOPBACK, "--data-dir", name];
    let first = Program::serve(binary(&serve)).await;
    refused(&serve, &[name, "in use"]).await;
    let session = new_session(&first.url).await;
    assert_eq!(ask(&first.url, &session, "Hello").await["status"], "completed");
    assert_eq!(first.terminate().await.0.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_named_database_is_used_and_nothing_is_kept_elsewhere() {
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
async fn migrate_brings_an_empty_database_up_to_date_and_may_be_repeated() {
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
async fn the_document_is_printed_and_compared() {
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
    refused(&["openapi", "--check", changed], &[changed]).await;
    let missing = "/no/such/openapi.json";
    refused(&["openapi", "--check", missing], &[missing]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_check_tells_a_service_from_none() {
    let database = database().await;
    let mut command = binary(&["serve", "--offline", "--bind", LOOPBACK]);
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let address = program.address().to_owned();
    let check = ["healthcheck", "--bind", &address];
    assert_eq!(outcome(binary(&check)).await, (Some(0), String::new(), String::new()));
    assert_eq!(program.terminate().await.0.code(), Some(0));
    refused(&check, &["does not respond"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_in_flight_does_not_keep_the_service_from_stopping() {
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
    assert!(took < machine::scaled(Duration::from_secs(10)), "it took {took:?} to end");
    let torn = response.bytes().await;
    assert!(torn.is_err(), "the stream ended as if it were complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_decides_what_may_wait() {
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
    // What can begin need not wait, once the worker stands ready.
    let deadline = Instant::now() + Duration::from_secs(20);
    while post(json!({ "content": "Hang" })).await.status() != StatusCode::ACCEPTED {
        assert!(Instant::now() < deadline, "nothing began");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    problem(post(json!({ "content": "Again" })).await, 409, "session_busy").await;
    let waits = json!({ "content": "Again", "on_busy": "queue" });
    problem(post(waits).await, 429, "overloaded").await;
    program.terminate().await;
}
