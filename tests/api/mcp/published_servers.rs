//! Published servers of other projects, unmodified. `scripts/ensure-mcp` installs them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use twostep::tools::mcp::{Program, ServerSettings, ServerTransport};

use super::fake_server::{offered, results};
use crate::support::{Setup, TestApp, calls, replies, says};

/// The settings of an installed server.
fn installed(name: &str, program: &str, args: &[&str]) -> ServerSettings {
    let folder = std::env::var_os("TWOSTEP_TEST_MCP").map(PathBuf::from);
    let command = folder
        .expect("TWOSTEP_TEST_MCP is not set; scripts/ensure-mcp prints its value")
        .join(program);
    ServerSettings {
        name: name.to_owned(),
        transport: ServerTransport::Program(Program {
            command: command.display().to_string(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]),
            folder: None,
            user: None,
        }),
        is_trusted: true,
        timeout: Duration::from_secs(20),
        only: None,
        withheld: Vec::new(),
    }
}

async fn app(server: ServerSettings, script: &[Value]) -> TestApp {
    let setup = Setup { tool_servers: vec![server], ..Setup::default() };
    TestApp::start_with(replies(script), setup).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a published server"]
async fn the_everything_server_answers() {
    let server = installed("everything", "node_modules/.bin/mcp-server-everything", &["stdio"]);
    let app = app(
        server,
        &[
            calls("mcp__everything__echo", json!({ "message": "hello" })),
            calls("mcp__everything__get-sum", json!({ "a": 2, "b": 40 })),
            calls("mcp__everything__get-tiny-image", json!({})),
            calls("mcp__everything__get-sum", json!({ "a": "two", "b": 40 })),
            says("Done."),
        ],
    )
    .await;
    let session = app.session().await;
    session.ask("Go").await;
    let results = results(&session).await;
    assert_eq!(results[0], ("Echo: hello".to_owned(), false));
    assert_eq!(results[1], ("The sum of 2 and 40 is 42.".to_owned(), false));
    assert!(results[2].0.contains("\n[image/png, "), "{:?}", results[2]);
    assert!(results[3].1, "{:?}", results[3]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a published server"]
async fn the_filesystem_server_reads_only_in_its_folder() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("a.txt"), "the content").unwrap();
    let program = "node_modules/.bin/mcp-server-filesystem";
    let server = installed("files", program, &[root.to_str().unwrap()]);
    let read = |path: &str| calls("mcp__files__read_text_file", json!({ "path": path }));
    let inside = root.join("a.txt");
    let app =
        app(server, &[read(inside.to_str().unwrap()), read("/etc/passwd"), says("Done.")]).await;
    let session = app.session().await;
    session.ask("Go").await;
    let results = results(&session).await;
    assert_eq!(results[0], ("the content".to_owned(), false));
    assert!(results[1].1 && results[1].0.contains("Access denied"), "{:?}", results[1]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a published server"]
async fn the_time_server_converts_a_time() {
    let app = app(
        installed("time", "venv/bin/mcp-server-time", &["--local-timezone", "Europe/Oslo"]),
        &[
            calls(
                "mcp__time__convert_time",
                json!({ "source_timezone": "Europe/Oslo", "time": "12:00",
                        "target_timezone": "Asia/Tokyo" }),
            ),
            says("Done."),
        ],
    )
    .await;
    assert_eq!(offered(&app).await, ["mcp__time__convert_time", "mcp__time__get_current_time"]);
    let session = app.session().await;
    session.ask("Go").await;
    let results = results(&session).await;
    assert!(results[0].0.contains("Asia/Tokyo") && !results[0].1, "{results:?}");
}
