//! SIGHUP: the service reads its files again and continues.

use std::fs;
use std::path::Path;
use std::process::Command;

use reqwest::Client;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{Duration, Instant, sleep};

use crate::support::machine::HUNG;
use crate::support::{Program, TestDatabase, binary_logging_to, client_with, database};

/// The files of a service, and its log.
struct Files {
    folder: TempDir,
    database: TestDatabase,
}

impl Files {
    async fn new() -> Self {
        let files = Self { folder: TempDir::new().unwrap(), database: database().await };
        fs::create_dir(files.path("agents")).unwrap();
        files.write("agents/desk.json", &json!({ "description": "First." }));
        files.write("prices.json", &json!({ "simulator": price(1) }));
        files.write("rules.json", &json!({ "rules": [] }));
        files
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: &Value) {
        fs::write(self.path(name), content.to_string()).unwrap();
    }

    async fn serve(&self) -> Program {
        let mut command =
            binary_logging_to(&self.path("log"), &["serve", "--offline", "--bind", "127.0.0.1:0"]);
        command.arg("--agents").arg(self.path("agents"));
        command.arg("--prices").arg(self.path("prices.json"));
        command.arg("--permission-rules").arg(self.path("rules.json"));
        command.arg("--data-dir").arg(self.path("data"));
        command.env("DATABASE_URL", self.database.url());
        Program::serve(command).await
    }

    /// Sends SIGHUP and waits for the log line of its outcome.
    async fn reload(&self, program: &Program) -> String {
        let lines = || log_lines(&self.path("log"));
        let before = lines().len();
        program.signal(Signal::HUP);
        let deadline = Instant::now() + HUNG;
        loop {
            if let Some(line) = lines().into_iter().nth(before) {
                return line;
            }
            assert!(Instant::now() < deadline, "the log has no outcome of the reload");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

fn price(input: u32) -> Value {
    json!({ "input": input, "output": 1, "cache_write": 1, "cache_read": 1 })
}

/// The complete lines about reloads.
fn log_lines(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap();
    let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let about = |line: &&str| line.contains("configuration files");
    complete.lines().filter(about).map(str::to_owned).collect()
}

async fn read(client: &Client, program: &Program, path: &str) -> Value {
    let response = client.get(format!("{}{path}", program.url)).send().await.unwrap();
    response.json().await.unwrap()
}

async fn description(client: &Client, program: &Program) -> Value {
    read(client, program, "/v1/agents/desk").await["description"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_reloads_valid_files_and_keeps_the_content_of_invalid_ones() {
    let files = Files::new().await;
    let program = files.serve().await;
    let client = client_with(None);
    assert_eq!(description(&client, &program).await, "First.");

    files.write("agents/desk.json", &json!({ "description": "Second." }));
    files.write("prices.json", &json!({ "simulator": price(7) }));
    let line = files.reload(&program).await;
    assert!(line.contains("configuration files reloaded"), "{line}");
    for option in ["--agents", "--prices", "--permission-rules"] {
        assert!(line.contains(option), "{line}");
    }
    assert_eq!(description(&client, &program).await, "Second.");
    let models = read(&client, &program, "/v1/models").await;
    assert!(models.to_string().contains(r#""input":7"#), "{models}");

    // A profile from which no session can be created, and a file that is not JSON.
    files.write("agents/desk.json", &json!({ "description": "Third.", "tools": ["missing"] }));
    fs::write(files.path("prices.json"), "{").unwrap();
    files.write("rules.json", &json!({ "rules": [{ "decision": "deny" }] }));
    let line = files.reload(&program).await;
    assert!(line.contains("configuration files not reloaded completely"), "{line}");
    for cause in ["--agents: ", "--prices: ", "--permission-rules: "] {
        assert!(line.contains(cause), "{line}");
    }
    assert_eq!(description(&client, &program).await, "Second.");
    let models = read(&client, &program, "/v1/models").await;
    assert!(models.to_string().contains(r#""input":7"#), "{models}");

    // Reading a pipe without a writer would never end.
    fs::remove_file(files.path("prices.json")).unwrap();
    let made = Command::new("mkfifo").arg(files.path("prices.json")).status().unwrap();
    assert!(made.success());
    let line = files.reload(&program).await;
    assert!(line.contains("prices.json is not a regular file"), "{line}");
    fs::remove_file(files.path("prices.json")).unwrap();
    files.write("prices.json", &json!({ "simulator": price(8) }));
    files.reload(&program).await;
    let models = read(&client, &program, "/v1/models").await;
    assert!(models.to_string().contains(r#""input":8"#), "{models}");
    let (status, _) = program.terminate().await;
    assert!(status.success(), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reloaded_permission_rules_apply_to_the_next_call() {
    let files = Files::new().await;
    let program = files.serve().await;
    let client = client_with(None);
    let write = async || {
        let session = client.post(format!("{}/v1/sessions", program.url)).send().await.unwrap();
        let session: Value = session.json().await.unwrap();
        let url = format!("{}/v1/sessions/{}", program.url, session["id"].as_str().unwrap());
        let content = "Write hello to notes.txt and then read notes.txt";
        let post = client.post(format!("{url}/messages")).header("prefer", "wait=60");
        let post = post.json(&json!({ "content": content })).send().await.unwrap();
        assert_eq!(post.status(), 200);
        let events = client.get(format!("{url}/events?limit=100")).send().await.unwrap();
        events.text().await.unwrap()
    };
    assert!(!write().await.contains("not while the files are counted"));
    let rule = json!({
        "tool": "write_file", "decision": "deny", "reason": "not while the files are counted",
    });
    files.write("rules.json", &json!({ "rules": [rule] }));
    let line = files.reload(&program).await;
    assert!(line.contains("configuration files reloaded"), "{line}");
    assert!(write().await.contains("not while the files are counted"));
    program.terminate().await;
}
