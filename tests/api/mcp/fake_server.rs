//! A tool server of ours that behaves as it is asked to.

use std::collections::BTreeMap;
use std::fs::{read_to_string, write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use twostep::tools::mcp::{Program, Reach, ServerSettings};

use crate::support::{Session, Setup, TestApp, calls, replies, says};

/// The program, and the folder where it notes what it hears.
pub(super) struct Fake {
    folder: TempDir,
    script: &'static str,
}

impl Fake {
    pub(super) fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), script: "fake.sh" }
    }

    /// One that keeps to no rule.
    pub(super) fn rogue() -> Self {
        Self { script: "rogue.sh", ..Self::new() }
    }

    /// The same with tools that cannot be offered as they are.
    pub(super) fn odd() -> Self {
        Self::new().with("odd", "")
    }

    /// The same, but it does not end when its input does, nor when it is told to.
    pub(super) fn deaf() -> Self {
        Self::new().with("deaf", "")
    }

    /// The same with a file in its folder, which changes what it does.
    pub(super) fn with(self, mark: &str, content: &str) -> Self {
        write(self.folder.path().join(mark), content).unwrap();
        self
    }

    /// Lets it offer what it offered at first, once it is started again.
    pub(super) fn is_as_before(&self) {
        std::fs::remove_file(self.folder.path().join("changed")).unwrap();
    }

    /// What the shell is given to become it.
    pub(super) fn arguments(&self) -> [String; 2] {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/mcp").join(self.script);
        [script.as_path(), self.folder.path()].map(|path| path.display().to_string())
    }

    /// The server of the name `fake`.
    pub(super) fn settings(&self) -> ServerSettings {
        ServerSettings {
            name: "fake".to_owned(),
            reach: Reach::Program(Program {
                command: "/bin/sh".to_owned(),
                args: self.arguments().to_vec(),
                env: BTreeMap::from([("GIVEN".to_owned(), "yes".to_owned())]),
                folder: None,
            }),
            is_trusted: false,
            timeout: Duration::from_secs(20),
            only: None,
            withheld: Vec::new(),
        }
    }

    /// A service that has the server, and whose model calls these tools of it one after the other.
    pub(super) async fn app(&self, tools: &[&str]) -> TestApp {
        app(self.settings(), &asks_for(tools)).await
    }

    /// What the server heard, line by line.
    pub(super) fn heard(&self) -> Vec<Value> {
        let text = read_to_string(self.folder.path().join("heard")).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The processes that it was, in their order.
    pub(super) fn started(&self) -> Vec<u32> {
        let text = read_to_string(self.folder.path().join("started")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

/// Whether a process does anything; one that has ended may wait for somebody who asks how.
pub(super) fn is_running(pid: u32) -> bool {
    let status = read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.contains("State:") && !status.contains("State:\tZ")
}

/// Replies that call these tools of the server, and then an end.
pub(super) fn asks_for(tools: &[&str]) -> Value {
    let call = |name: &&str| calls(&format!("mcp__fake__{name}"), json!({ "text": "hello" }));
    let mut all: Vec<Value> = tools.iter().map(call).collect();
    all.push(says("Done."));
    replies(&all)
}

pub(super) async fn app(server: ServerSettings, script: &Value) -> TestApp {
    let setup = Setup { tool_servers: vec![server], ..Setup::default() };
    TestApp::start_with(script.clone(), setup).await
}

/// What the model was told of each call of a session, and whether as an error.
pub(super) async fn results(session: &Session<'_>) -> Vec<(String, bool)> {
    let results =
        session.events().await.into_iter().filter(|event| event["type"] == "agent.tool_result");
    let told = |event: Value| {
        let text = event["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        (text, event["is_error"].as_bool().unwrap())
    };
    results.map(told).collect()
}

/// The names of the tools that a service offers of servers.
pub(super) async fn offered(app: &TestApp) -> Vec<String> {
    let page: Value = app.get("/v1/tools").send().await.unwrap().json().await.unwrap();
    let names = page["data"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
    names.filter(|name| name.starts_with("mcp__")).map(str::to_owned).collect()
}

/// A tool as the catalogue has it.
pub(super) async fn catalogued(app: &TestApp, name: &str) -> Value {
    let page: Value = app.get("/v1/tools").send().await.unwrap().json().await.unwrap();
    let found = page["data"].as_array().unwrap().iter().find(|tool| tool["name"] == name);
    found.unwrap_or_else(|| panic!("there is no {name}")).clone()
}

/// A figure of the service.
pub(super) async fn figure(app: &TestApp, line: &str) -> u64 {
    let text = app.get("/metrics").send().await.unwrap().text().await.unwrap();
    let found = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{line} is not in {text}")).parse().unwrap()
}

/// What `/readyz` says of the server, and whether the service is ready.
pub(super) async fn readiness(app: &TestApp) -> (bool, Value) {
    let found: Value = app.get("/readyz").send().await.unwrap().json().await.unwrap();
    (found["is_ready"].as_bool().unwrap(), found["checks"]["mcp:fake"].clone())
}

/// Looks again and again until this is so.
pub(super) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while !is_so().await {
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
