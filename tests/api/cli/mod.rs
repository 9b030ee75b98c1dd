//! The command line for users.

mod agents;
mod chat;
mod commands;
mod config;
mod doctor;
mod faulty_proxy;
mod keys;
mod lossy_link;
mod output;
mod run;
mod sessions;
mod terminal;

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

use crate::support::{TestApp, binary, outcome};
use lossy_link::Way;
use terminal::Terminal;

/// What a command may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

/// A command that asks this service.
fn asks(app: &TestApp, args: &[&str]) -> Command {
    let mut command = binary(args);
    command.env("TWOSTEP_SERVER", app.url(""));
    command
}

/// What comes of it: status, stdout and stderr.
async fn told(app: &TestApp, args: &[&str]) -> (Option<i32>, String, String) {
    outcome(asks(app, args)).await
}

/// The same of a command that is told this on stdin.
async fn told_on_stdin(mut command: Command, text: &str) -> (Option<i32>, String, String) {
    let pipe = Stdio::piped;
    let mut child = command.stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).await.unwrap();
    drop(stdin);
    let output = timeout(PATIENCE, child.wait_with_output()).await;
    let output = output.expect("the command did not end").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// What a command that went well has printed, and that it complained of nothing.
fn good(told: (Option<i32>, String, String)) -> String {
    let (status, stdout, stderr) = told;
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    stdout
}

/// All sessions of a service, the newest first.
async fn sessions(app: &TestApp) -> Vec<Value> {
    let page: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().clone()
}

/// The id of the newest session, once there is one with a run that has begun.
async fn busy_session(app: &TestApp) -> String {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(session) = sessions(app).await.first()
            && session["status"] == "running"
        {
            return session["id"].as_str().unwrap().to_owned();
        }
        assert!(tokio::time::Instant::now() < deadline, "no run began");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The statuses of a session's runs, the oldest first.
async fn statuses(app: &TestApp, session: &str) -> Vec<String> {
    let path = format!("/v1/sessions/{session}/runs");
    let page: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    let runs = page["data"].as_array().unwrap();
    runs.iter().map(|run| run["status"].as_str().unwrap().to_owned()).collect()
}
