//! Start and stop of servers: the file of `--mcp`, the loss of a worker, files in the workspace.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use reqwest::Client;
use rustix::process::{Signal, geteuid};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::fake_server::{Fake, is_running, offered, results, script_calling, wait_until};
use crate::faults::takeover::lose_worker;
use crate::support::{Program, Setup, TestApp, TestDatabase, binary, database, outcome};

fn calls_received(fake: &Fake) -> usize {
    fake.received().iter().filter(|message| message["method"] == "tools/call").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_worker_dies_is_not_repeated() {
    let fake = Fake::new();
    let app = fake.app(&["hang"]).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Go" })).await;
    wait_until("the tool was not called", async || calls_received(&fake) == 1).await;
    lose_worker(&app, &run, 1).await;
    let run = session.settled(&run).await;
    assert_eq!(run["status"], "completed");
    let [(text, is_error)] = &results(&session).await[..] else { panic!("not one result") };
    assert!(*is_error && text.starts_with("Interrupted: the worker stopped"), "{text}");
    assert_eq!(calls_received(&fake), 1);
}

/// The content of a file for `--mcp` with the fake server. Other MCP clients read the same format.
fn file_of(fake: &Fake) -> String {
    let args = fake.arguments();
    let entry = json!({ "command": "/bin/sh", "args": args, "env": { "GIVEN": "${FAKE_VALUE}" } });
    json!({ "mcpServers": { "fake": entry } }).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_the_workspace_starts_no_server() {
    let fake = Fake::new();
    let app = TestApp::start_with(script_calling(&["echo"]), Setup::default()).await;
    for name in [".mcp.json", "mcp.json", "servers.json"] {
        app.write_file(name, &file_of(&fake));
    }
    let session = app.session().await;
    session.ask("Go").await;
    let unknown = r#"{"error":"Unknown tool: 'mcp__fake__echo'"}"#;
    assert_eq!(results(&session).await, [(unknown.to_owned(), true)]);
    assert_eq!(offered(&app).await, Vec::<String>::new());
    assert_eq!(fake.started(), Vec::<u32>::new());
}

/// Starts the program with a file that names the fake server.
async fn serve(fake: &Fake, folder: &TempDir, database: &TestDatabase) -> Program {
    let file = folder.path().join("servers.json");
    std::fs::write(&file, file_of(fake)).unwrap();
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0", "--mcp"]);
    command.arg(&file).env("DATABASE_URL", database.url()).env("FAKE_VALUE", "a value");
    Program::serve(command).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_of_a_killed_service_are_killed() {
    let (fake, folder, database) = (Fake::unstoppable(), TempDir::new().unwrap(), database().await);
    let program = serve(&fake, &folder, &database).await;
    let started = fake.started();
    assert_eq!(started.len(), 2);
    assert!(started.iter().all(|pid| is_running(*pid)));
    program.end_by(Signal::KILL).await;
    wait_until("a process still runs", async || !started.iter().any(|pid| is_running(*pid))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_starts_the_servers_of_its_file_and_stops_them() {
    let (fake, folder, database) = (Fake::new(), TempDir::new().unwrap(), database().await);
    let program = serve(&fake, &folder, &database).await;
    // Fails if another test of this process has installed a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder().no_proxy().build().unwrap();
    let page = client.get(format!("{}/v1/tools", program.url)).send().await.unwrap();
    let page: Value = page.json().await.unwrap();
    let tools = page["data"].as_array().unwrap();
    let echo = tools.iter().find(|tool| tool["name"] == "mcp__fake__echo").unwrap();
    assert_eq!(echo["default"], false);
    let [server] = fake.started()[..] else { panic!("not one server") };
    let environment = std::fs::read_to_string(format!("/proc/{server}/environ")).unwrap();
    assert_eq!(environment, "GIVEN=a value\0");
    let (status, _) = program.end_by(Signal::TERM).await;
    assert!(status.success(), "{status}");
    assert!(!Path::new(&format!("/proc/{server}")).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_with_an_invalid_file_does_not_start_and_states_the_cause() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("servers.json");
    let entry = json!({ "command": "x", "env": { "KEY": "${NOT_THERE}" } });
    std::fs::write(&file, json!({ "mcpServers": { "a": entry } }).to_string()).unwrap();
    let mut command = binary(&["serve", "--offline", "--mcp"]);
    command.arg(&file);
    let (status, stdout, stderr) = outcome(command).await;
    assert_eq!((status, stdout.as_str()), (Some(1), ""));
    let path = file.display();
    let expected = format!(
        "the MCP servers in {path} cannot be used: of \"a\": env KEY: NOT_THERE is not set"
    );
    assert!(stderr.contains(&expected), "{stderr}");
    let mut command =
        binary(&["serve", "--offline", "--permission-url", "mcp:missing/evaluate", "--mcp"]);
    std::fs::write(&file, r#"{"mcpServers": {}}"#).unwrap();
    command.arg(&file);
    let (status, _, stderr) = outcome(command).await;
    assert_eq!(status, Some(1));
    let expected =
        r#"--permission-url names the MCP server "missing", which --mcp does not contain"#;
    assert!(stderr.contains(expected), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_of_a_server_runs_as_the_user_that_its_entry_names() {
    let (folder, database) = (TempDir::new().unwrap(), database().await);
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (file, ids) = (folder.path().join("servers.json"), folder.path().join("ids"));
    let write_file = |user: &str| {
        let script = format!("id -u >{0}.new && id -G >>{0}.new && mv {0}.new {0}", ids.display());
        let entry = json!({
            "command": "/bin/sh", "args": ["-c", script], "user": user,
            "env": { "PATH": "/usr/bin:/bin" },
        });
        std::fs::write(&file, json!({ "mcpServers": { "a": entry } }).to_string()).unwrap();
    };
    let refusal = async || {
        let mut command = binary(&["config", "check", "--offline", "--mcp"]);
        command.arg(&file);
        let (status, _, stderr) = outcome(command).await;
        assert_eq!(status, Some(1), "{stderr}");
        stderr
    };
    write_file("nobody");
    if !geteuid().is_root() {
        assert!(refusal().await.contains("needs a service that runs as root"));
        return;
    }
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0", "--mcp"]);
    command.arg(&file).arg("--data-dir").arg(folder.path().join("data"));
    command.env("DATABASE_URL", database.url());
    let program = Program::serve(command).await;
    wait_until("the program did not start", async || ids.exists()).await;
    let found = std::fs::read_to_string(&ids).unwrap();
    let found: Vec<&str> = found.lines().collect();
    assert_eq!(found[0], "65534");
    assert_eq!(found[1].split(' ').count(), 1, "the program keeps groups of root: {found:?}");
    assert_ne!(found[1], "0");
    program.terminate().await;
    write_file("root");
    assert!(refusal().await.contains("can read the memory of the service"));
    write_file("nobody-else");
    assert!(refusal().await.contains("is not in /etc/passwd"));
}
