//! Agents of the operator, which are read from files.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use twostep::service::OperatorAgents;

use super::{agent, refused};
use crate::support::{
    Program, Setup, TestApp, binary, client_with, database, outcome, problem, replies,
};

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_can_use_and_cannot_change_the_agents_of_the_operator() {
    let desk = r#"{ "version": 4, "description": "The desk.", "tools": ["get_time"] }"#;
    let files = folder(&[
        ("desk.json", desk),
        ("desk.md", "You are the desk.\n"),
        // Replaces the built-in agent of this name.
        ("coder.json", r#"{ "system": "Follow our conventions.", "tools": ["Read"] }"#),
    ]);
    let agents = OperatorAgents::read(files.path()).unwrap();
    let app = TestApp::start_with(replies(&[]), Setup { agents, ..Setup::default() }).await;
    let session = app.session_with(json!({ "agent": "desk@4" })).await.read().await;
    assert_eq!(
        (&session["system"], &session["tools"]),
        (&json!("You are the desk."), &json!(["get_time"]))
    );
    assert_eq!(session["agent"], json!({ "name": "desk", "version": 4 }));
    let message = "is desk@1, but there is no such agent";
    assert_eq!(refused(&app, json!({ "agent": "desk@1" })).await["message"], message);
    let expected = json!({
        "type": "agent", "name": "desk", "version": 4, "source": "operator",
        "description": "The desk.",
        "profile": { "description": "The desk.", "system": "You are the desk.", "tools": ["get_time"] },
    });
    assert_eq!(agent(&app, "/desk").await, expected);
    let session = app.session_with(json!({ "agent": "coder" })).await.read().await;
    assert_eq!(session["tools"], json!(["Read"]));
    let page = agent(&app, "").await;
    let names_and_sources: Vec<(&str, &str)> = page["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| (agent["name"].as_str().unwrap(), agent["source"].as_str().unwrap()))
        .collect();
    let expected = [
        ("coder", "operator"),
        ("course", "builtin"),
        ("desk", "operator"),
        ("general", "builtin"),
        ("researcher", "builtin"),
        ("weather", "builtin"),
    ];
    assert_eq!(names_and_sources, expected);
    let response = app.put("desk", &json!({})).send().await.unwrap();
    let conflict = problem(response, 409, "agent_name_taken").await;
    let detail = "desk is an agent of the operator, which tenants can neither change nor hide";
    assert_eq!(conflict["detail"], detail);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_reads_the_agents_of_its_folder() {
    let (database, files) = (database().await, folder(&[("desk.json", r#"{"system": "Hello."}"#)]));
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0", "--agents"]);
    command.arg(files.path()).env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    let page = client_with(None).get(format!("{}/v1/agents/desk", program.url)).send();
    let page: Value = page.await.unwrap().json().await.unwrap();
    assert_eq!(
        (&page["source"], &page["profile"]),
        (&json!("operator"), &json!({ "system": "Hello." }))
    );
    let (status, _) = program.end_by(Signal::TERM).await;
    assert!(status.success(), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_with_an_invalid_agent_does_not_start_and_states_the_cause() {
    let database = database().await;
    for (json, cause) in [
        (r#"{"colour": 1}"#, "desk.json is not valid: /colour is not a known member"),
        (
            r#"{"tools": ["read_file", "Bash"]}"#,
            "desk.json is not valid: /tools names a tool that does not exist: \"Bash\"",
        ),
        (
            r#"{"limits": {"rounds": 5000}}"#,
            "desk.json is not valid: /limits/rounds is more than 1000",
        ),
        (
            r#"{"permission_mode": "bypass"}"#,
            "desk.json is not valid: /permission_mode is not enabled",
        ),
    ] {
        let files = folder(&[("desk.json", json)]);
        let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0", "--agents"]);
        command.arg(files.path()).env("DATABASE_URL", database.url());
        let (status, stdout, stderr) = outcome(command).await;
        assert_eq!((status, stdout.as_str()), (Some(1), ""));
        assert!(stderr.contains(cause), "{stderr}");
    }
}
