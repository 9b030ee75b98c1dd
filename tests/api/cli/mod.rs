//! The command line for users.

mod agents;
mod chat;
mod chat_editor;
mod commands;
mod config;
mod doctor;
mod faulty_proxy;
mod first_key;
mod hostile_arguments;
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
use lossy_link::LossyLink;
use terminal::Terminal;

/// The time limit of a command, on a busy machine as well.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);

/// A command that uses this service.
fn command(app: &TestApp, args: &[&str]) -> Command {
    let mut command = binary(args);
    command.env("TWOSTEP_SERVER", app.url(""));
    command
}

/// Runs a command against this service, and returns status, stdout and stderr.
async fn run_command(app: &TestApp, args: &[&str]) -> (Option<i32>, String, String) {
    outcome(command(app, args)).await
}

/// Runs a command with this text on stdin, and returns status, stdout and stderr.
async fn outcome_with_stdin(mut command: Command, text: &str) -> (Option<i32>, String, String) {
    let pipe = Stdio::piped;
    let mut child = command.stdin(pipe()).stdout(pipe()).stderr(pipe()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).await.unwrap();
    drop(stdin);
    let output = timeout(COMMAND_TIMEOUT, child.wait_with_output()).await;
    let output = output.expect("the command did not exit").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Asserts that a command succeeded with an empty stderr, and returns its stdout.
fn stdout_of(output: (Option<i32>, String, String)) -> String {
    let (status, stdout, stderr) = output;
    assert_eq!((status, stderr.as_str()), (Some(0), ""), "{stdout}");
    stdout
}

/// All sessions of a service, newest first.
async fn sessions(app: &TestApp) -> Vec<Value> {
    let page: Value = app.get("/v1/sessions").send().await.unwrap().json().await.unwrap();
    page["data"].as_array().unwrap().clone()
}

/// Waits until the newest session has a running run, and returns its id.
async fn busy_session(app: &TestApp) -> String {
    let deadline = tokio::time::Instant::now() + COMMAND_TIMEOUT;
    loop {
        if let Some(session) = sessions(app).await.first()
            && session["status"] == "running"
        {
            return session["id"].as_str().unwrap().to_owned();
        }
        assert!(tokio::time::Instant::now() < deadline, "no run started");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The statuses of a session's runs, oldest first.
async fn statuses(app: &TestApp, session: &str) -> Vec<String> {
    let path = format!("/v1/sessions/{session}/runs");
    let page: Value = app.get(&path).send().await.unwrap().json().await.unwrap();
    let runs = page["data"].as_array().unwrap();
    runs.iter().map(|run| run["status"].as_str().unwrap().to_owned()).collect()
}
