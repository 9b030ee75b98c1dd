//! A tool of a server that evaluates the permission of other calls.

use std::time::Duration;

use serde_json::{Value, json};
use twostep::domain::permission::PermissionMode;
use twostep::tools::mcp::ServerSettings;
use twostep::tools::policy::{EvaluatorSource, OperatorPolicy};

use super::fake_server::{Fake, offered, results};
use crate::support::{Setup, TestApp, calls, replies, says};

/// The result of a call whose permission this tool of the server evaluates.
async fn evaluated_by(fake: &Fake, tool: &str) -> (String, bool) {
    let policy = OperatorPolicy {
        default_mode: PermissionMode::Default,
        evaluator: Some(EvaluatorSource::Tool { server: "fake".into(), tool: tool.into() }),
        evaluation_timeout: Duration::from_secs(1),
        ..OperatorPolicy::default()
    };
    let settings = ServerSettings { withheld: vec![tool.to_owned()], ..fake.settings() };
    let setup =
        Setup { tool_servers: vec![settings], permissions: Some(policy), ..Setup::default() };
    let script =
        replies(&[calls("write_file", json!({ "path": "a.txt", "content": "a" })), says("Done.")]);
    let app = TestApp::start_with(script, setup).await;
    assert!(!offered(&app).await.contains(&format!("mcp__fake__{tool}")));
    let session = app.session().await;
    let run = session.ask("Go").await;
    assert_eq!(run["status"], "completed");
    results(&session).await.remove(0)
}

fn failed(cause: &str) -> (String, bool) {
    let text = format!(
        "<tool_use_error>Error calling tool (write_file): MCP error -32603: failed to evaluate \
         permission: {cause}</tool_use_error>"
    );
    (text, true)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_evaluator_decides_calls_and_is_not_offered_to_the_model() {
    let fake = Fake::new();
    let (text, is_error) = evaluated_by(&fake, "allow").await;
    assert!(!is_error, "{text}");
    let received = fake.received();
    let call = received.iter().find(|message| message["method"] == "tools/call").unwrap();
    let mut arguments = call["params"]["arguments"].clone();
    for id in ["session_id", "tool_use_id"] {
        assert!(arguments[id].take().is_string());
    }
    assert_eq!(
        arguments,
        json!({ "tool": "write_file", "input": { "path": "a.txt", "content": "a" },
                "class": "checkable", "session_id": Value::Null, "tool_use_id": Value::Null })
    );
    let denied = "Error: This call of write_file did not run: the permission service denied it. Not \
        on a Friday.";
    assert_eq!(evaluated_by(&Fake::new(), "deny").await, (denied.to_owned(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_not_allowed_when_its_evaluation_fails() {
    assert_eq!(evaluated_by(&Fake::new(), "hang").await, failed("request timed out after 1s"));
    assert_eq!(evaluated_by(&Fake::new(), "crash").await, failed("no response received"));
    assert_eq!(evaluated_by(&Fake::new(), "refuse").await, failed(r"not\u{202e} today"));
    assert_eq!(evaluated_by(&Fake::new(), "fail").await, failed("The tool failed."));
    assert_eq!(evaluated_by(&Fake::new(), "inspect").await, failed("the answer cannot be read"));
}
