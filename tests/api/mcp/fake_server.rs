//! MCP servers for the tests, written as shell scripts.

use std::collections::BTreeMap;
use std::fs::{read_to_string, write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use twostep::tools::mcp::{Program, ServerSettings, ServerTransport};

use crate::support::{Session, Setup, TestApp, calls, replies, says};

/// The script of a server, and the folder in which the server records received messages.
pub(super) struct Fake {
    folder: TempDir,
    script: &'static str,
}

impl Fake {
    pub(super) fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), script: "fake.sh" }
    }

    /// A server that violates the protocol.
    pub(super) fn rogue() -> Self {
        Self { script: "rogue.sh", ..Self::new() }
    }

    /// A server with additional tools whose definitions cannot be offered unchanged.
    pub(super) fn odd() -> Self {
        Self::new().with("odd", "")
    }

    /// A server that ignores SIGTERM and the end of its input.
    pub(super) fn unstoppable() -> Self {
        Self::new().with("unstoppable", "")
    }

    /// Adds a file to the server's folder, which changes its behaviour.
    pub(super) fn with(self, file: &str, content: &str) -> Self {
        write(self.folder.path().join(file), content).unwrap();
        self
    }

    /// Restores the initial list of tools from the next start of the server.
    pub(super) fn restore_tools(&self) {
        std::fs::remove_file(self.folder.path().join("changed")).unwrap();
    }

    /// The arguments of the shell that runs the script.
    pub(super) fn arguments(&self) -> [String; 2] {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/mcp").join(self.script);
        [script.as_path(), self.folder.path()].map(|path| path.display().to_string())
    }

    /// The settings of the server, with the name `fake`.
    pub(super) fn settings(&self) -> ServerSettings {
        ServerSettings {
            name: "fake".to_owned(),
            transport: ServerTransport::Program(Program {
                command: "/bin/sh".to_owned(),
                args: self.arguments().to_vec(),
                env: BTreeMap::from([("GIVEN".to_owned(), "yes".to_owned())]),
                folder: None,
                user: None,
            }),
            is_trusted: false,
            timeout: Duration::from_secs(20),
            only: None,
            withheld: Vec::new(),
        }
    }

    /// Starts a service with this server and a model that calls these tools one after the other.
    pub(super) async fn app(&self, tools: &[&str]) -> TestApp {
        app(self.settings(), &script_calling(tools)).await
    }

    /// The messages that the server received.
    pub(super) fn received(&self) -> Vec<Value> {
        let text = read_to_string(self.folder.path().join("received")).unwrap_or_default();
        let complete_lines = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        complete_lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The ids of all processes that the server has started, in order.
    pub(super) fn started(&self) -> Vec<u32> {
        let text = read_to_string(self.folder.path().join("started")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

/// Reports whether a process runs. A zombie process does not count as running.
pub(super) fn is_running(pid: u32) -> bool {
    let status = read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.contains("State:") && !status.contains("State:\tZ")
}

/// A script of the model that calls these tools of the server one after the other and then ends.
pub(super) fn script_calling(tools: &[&str]) -> Value {
    let call = |name: &&str| calls(&format!("mcp__fake__{name}"), json!({ "text": "hello" }));
    let mut script: Vec<Value> = tools.iter().map(call).collect();
    script.push(says("Done."));
    replies(&script)
}

pub(super) async fn app(server: ServerSettings, script: &Value) -> TestApp {
    let setup = Setup { tool_servers: vec![server], ..Setup::default() };
    TestApp::start_with(script.clone(), setup).await
}

/// The text of each tool result of a session, and whether it is an error.
pub(super) async fn results(session: &Session<'_>) -> Vec<(String, bool)> {
    let results =
        session.events().await.into_iter().filter(|event| event["type"] == "agent.tool_result");
    let text_and_error = |event: Value| {
        let text = event["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        (text, event["is_error"].as_bool().unwrap())
    };
    results.map(text_and_error).collect()
}

/// The names of the MCP tools in the catalog of a service.
pub(super) async fn offered(app: &TestApp) -> Vec<String> {
    let page: Value = app.get("/v1/tools").send().await.unwrap().json().await.unwrap();
    let names = page["data"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
    names.filter(|name| name.starts_with("mcp__")).map(str::to_owned).collect()
}

/// The catalog entry of a tool.
pub(super) async fn catalog_entry(app: &TestApp, name: &str) -> Value {
    let page: Value = app.get("/v1/tools").send().await.unwrap().json().await.unwrap();
    let found = page["data"].as_array().unwrap().iter().find(|tool| tool["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in the catalog")).clone()
}

/// The value of a metric of the service.
pub(super) async fn metric(app: &TestApp, name: &str) -> u64 {
    let text = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
}

/// The server in `GET /v1/mcp-servers`.
pub(super) async fn listed(app: &TestApp) -> Value {
    let page: Value = app.get("/v1/mcp-servers").send().await.unwrap().json().await.unwrap();
    let [server] = page["data"].as_array().unwrap().as_slice() else { panic!("{page}") };
    server.clone()
}

/// Reports from `/readyz` whether the service is ready, and the check of the server.
pub(super) async fn readiness(app: &TestApp) -> (bool, Value) {
    let report: Value = app.get("/readyz").send().await.unwrap().json().await.unwrap();
    (report["is_ready"].as_bool().unwrap(), report["checks"]["mcp:fake"].clone())
}

/// Polls the condition until it holds. Panics with the message after 30 s.
pub(super) async fn wait_until(message: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    while !condition().await {
        assert!(tokio::time::Instant::now() < deadline, "{message}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
