//! The tools of a server that the service offers, and their names.

use serde_json::{Value, json};
use twostep::domain::permission::PermissionMode;
use twostep::tools::mcp::ServerSettings;
use twostep::tools::policy::OperatorPolicy;

use super::fake_server::{
    Fake, app, catalog_entry, listed, metric, offered, readiness, results, script_calling,
};
use crate::support::{Setup, TestApp};

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_a_server_is_called_and_its_result_returned() {
    let fake = Fake::new();
    let app = fake.app(&["echo", "fail", "refuse"]).await;
    let session = app
        .session_with(json!({ "tools": ["mcp__fake__echo", "mcp__fake__fail",
                                                     "mcp__fake__refuse"] }))
        .await;
    let run = session.ask("Go").await;
    assert_eq!(run["status"], "completed");
    let expected = [
        ("You said hello.", false),
        ("Error: The tool failed.", true),
        ("Error: MCP error -32602: not\\u{202e} today", true),
    ];
    let expected = expected.map(|(text, is_error)| (text.to_owned(), is_error));
    assert_eq!(results(&session).await, expected);
    assert_eq!(
        metric(&app, r#"twostep_mcp_requests_total{server="fake",outcome="answered"}"#).await,
        1
    );
    assert_eq!(
        metric(&app, r#"twostep_mcp_requests_total{server="fake",outcome="failed"}"#).await,
        2
    );
    assert_eq!(metric(&app, r#"twostep_mcp_up{server="fake"}"#).await, 1);
    let check = json!({ "status": "ok", "detail": "connected, tools: 14" });
    assert_eq!(readiness(&app).await, (true, check));
    let expected =
        json!({ "type": "mcp_server", "name": "fake", "status": "connected", "tools": 14 });
    assert_eq!(listed(&app).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_hint_counts_only_if_the_server_is_trusted() {
    let fake = Fake::new();
    let service = fake.app(&[]).await;
    assert_eq!(
        catalog_entry(&service, "mcp__fake__echo").await,
        json!({
            "name": "mcp__fake__echo",
            "description": "Repeats the text.",
            "input_schema": { "type": "object", "properties": { "text": { "type": "string" } },
                              "required": ["text"] },
            "class": "effect",
            "timing": "network",
            "deadline_ms": 20_000,
            "parallel": false,
            "default": true,
        })
    );
    assert_eq!(catalog_entry(&service, "mcp__fake__inspect").await["class"], "effect");
    drop(service);

    let trusted = ServerSettings { is_trusted: true, ..fake.settings() };
    let service = app(trusted, &script_calling(&[])).await;
    assert_eq!(catalog_entry(&service, "mcp__fake__echo").await["class"], "effect");
    assert_eq!(catalog_entry(&service, "mcp__fake__inspect").await["class"], "pure");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_tool_of_a_server_waits_for_approval_by_default() {
    let fake = Fake::new();
    let setup = Setup {
        tool_servers: vec![fake.settings()],
        permissions: Some(OperatorPolicy {
            default_mode: PermissionMode::AcceptEdits,
            ..OperatorPolicy::default()
        }),
        ..Setup::default()
    };
    let app = TestApp::start_with(script_calling(&["inspect"]), setup).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Go" })).await;
    session.reached(&run, "session.status_idle").await;
    let calls = fake.received().into_iter().filter(|message| message["method"] == "tools/call");
    assert_eq!(calls.collect::<Vec<_>>(), Vec::<Value>::new());
    session.cancel(&run).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_characters_are_escaped_and_invalid_tools_are_left_out() {
    let fake = Fake::odd();
    let app = fake.app(&[]).await;
    let names = offered(&app).await;
    let names: Vec<&str> = names.iter().map(|name| &name["mcp__fake__".len()..]).collect();
    assert_eq!(
        names,
        [
            "change",
            "crash",
            "echo",
            "environment",
            "fail",
            "flood",
            "fs_read_4074bc02",
            "hang",
            "hidden",
            "huge",
            "inspect",
            "picture",
            "pings",
            "refuse",
            "spawn",
            "wrong_id"
        ]
    );
    assert_eq!(catalog_entry(&app, "mcp__fake__echo").await["description"], "Repeats the text.");
    let escaped = r"It is\u{202e} plain\u{1b}[2K.\u{200b}";
    assert_eq!(catalog_entry(&app, "mcp__fake__hidden").await["description"], escaped);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_tools_that_the_operator_names_are_offered() {
    let fake = Fake::new();
    let only = Some(vec!["inspect".to_owned(), "echo".to_owned(), "nothing".to_owned()]);
    let settings = ServerSettings { only, withheld: vec!["echo".to_owned()], ..fake.settings() };
    let app = app(settings, &script_calling(&[])).await;
    assert_eq!(offered(&app).await, ["mcp__fake__inspect"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_process_has_only_the_environment_of_its_settings() {
    let fake = Fake::new();
    let app = fake.app(&["environment"]).await;
    let session = app.session().await;
    session.ask("Go").await;
    assert_eq!(results(&session).await, [("GIVEN=yes ".to_owned(), false)]);
}
