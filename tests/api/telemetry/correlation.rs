//! Trace ids: the model requests and the log lines of a run have the trace id of its message.

use serde_json::{Value, json};

use crate::support::{
    Program, TestApp, binary_logging_to, calls, client_with, data_dir, database, replies, says,
};

const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn given() -> String {
    format!("00-{ID}-{PARENT}-01")
}

/// The parts of the `traceparent` of every request to the model.
fn sent(app: &TestApp) -> Vec<Vec<String>> {
    let header = |headers: &reqwest::header::HeaderMap| {
        let value = headers["traceparent"].to_str().unwrap();
        value.split('-').map(str::to_owned).collect()
    };
    app.upstream().requests.iter().map(|request| header(&request.headers)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_the_model_belong_to_the_trace_of_the_message() {
    let app = TestApp::start(replies(&[calls("get_time", json!({})), says("Noon.")])).await;
    let session = app.session().await;
    let post = session.message(&json!({ "content": "What time is it?" }));
    let post = post.header("traceparent", given()).header("prefer", "wait=30");
    assert_eq!(post.send().await.unwrap().status(), 200);
    let sent = sent(&app);
    assert_eq!(sent.len(), 2);
    for parts in &sent {
        assert_eq!((&*parts[0], &*parts[1], &*parts[3]), ("00", ID, "01"));
        assert_ne!(parts[2], PARENT, "the span id is that of the caller");
    }
    assert_ne!(sent[0][2], sent[1][2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_a_valid_trace_starts_one() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let mut seen = Vec::new();
    for given in [None, Some("nonsense".to_owned()), Some(given().replace(PARENT, &"0".repeat(16)))]
    {
        let session = app.session().await;
        let mut post = session.message(&json!({ "content": "Hi" })).header("prefer", "wait=30");
        if let Some(given) = given {
            post = post.header("traceparent", given);
        }
        assert_eq!(post.send().await.unwrap().status(), 200);
        let last = sent(&app).pop().unwrap();
        assert_eq!((last[0].len(), last[1].len(), last[2].len(), &*last[3]), (2, 32, 16, "00"));
        seen.push(last[1].clone());
    }
    seen.push(ID.to_owned());
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_message_in_another_trace_is_the_same_message() {
    let app = TestApp::start(replies(&[says("Hello.")])).await;
    let session = app.session().await;
    let mut runs = Vec::new();
    for parent in [PARENT, "00f067aa0ba902b8"] {
        let post = session.message(&json!({ "content": "Hi" })).header("idempotency-key", "k");
        let post = post.header("traceparent", format!("00-{ID}-{parent}-01"));
        let run: Value = post.send().await.unwrap().json().await.unwrap();
        runs.push(run["id"].clone());
    }
    assert_eq!(runs[0], runs[1]);
    session.settled(&json!({ "id": runs[0] })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn log_lines_of_a_run_name_the_trace_of_its_message() {
    let database = database().await;
    let folder = data_dir();
    let log = folder.path().join("log");
    let mut command = binary_logging_to(
        &log,
        &[
            "serve",
            "--offline",
            "--bind",
            "127.0.0.1:0",
            "--log",
            "twostep=debug",
            "--log-format",
            "json",
        ],
    );
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let client = client_with(None);
    let url = format!("{}/v1/sessions", program.url);
    let session: Value = client.post(&url).send().await.unwrap().json().await.unwrap();
    let post = client.post(format!("{url}/{}/messages", session["id"].as_str().unwrap()));
    let post = post.json(&json!({ "content": "What time is it?" })).header("prefer", "wait=30");
    let run: Value =
        post.header("traceparent", given()).send().await.unwrap().json().await.unwrap();
    assert_eq!(run["status"], "completed");
    program.terminate().await;
    let log = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_in = |line: &Value, span: &str| {
        let mut spans = line["spans"].as_array().into_iter().flatten();
        spans.any(|found| found["name"] == span && found["trace.id"] == ID)
    };
    assert!(lines.iter().any(|line| is_in(line, "run")), "{log}");
}
