//! What is taken of a server, and under which names.

use serde_json::{Value, json};
use twostep::domain::permission::PermissionMode;
use twostep::tools::mcp::ServerSettings;
use twostep::tools::policy::OperatorPolicy;

use super::fake_server::{Fake, app, asks_for, catalogued, figure, offered, readiness, results};
use crate::support::{Setup, TestApp};

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_of_a_server_is_called_by_its_name_and_its_result_handed_back() {
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
        ("Error: It went wrong.", true),
        ("Error: MCP error -32602: not\\u{202e} today", true),
    ];
    let expected = expected.map(|(text, is_error)| (text.to_owned(), is_error));
    assert_eq!(results(&session).await, expected);
    assert_eq!(
        figure(&app, r#"twostep_mcp_requests_total{server="fake",outcome="answered"}"#).await,
        1
    );
    assert_eq!(
        figure(&app, r#"twostep_mcp_requests_total{server="fake",outcome="failed"}"#).await,
        2
    );
    assert_eq!(figure(&app, r#"twostep_mcp_up{server="fake"}"#).await, 1);
    let check = json!({ "status": "ok", "detail": "connected, tools: 13" });
    assert_eq!(readiness(&app).await, (true, check));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_is_catalogued_as_one_with_effects_whatever_its_server_says() {
    let fake = Fake::new();
    let service = fake.app(&[]).await;
    assert_eq!(
        catalogued(&service, "mcp__fake__echo").await,
        json!({
            "name": "mcp__fake__echo",
            "description": "Says what it is told.",
            "input_schema": { "type": "object", "properties": { "text": { "type": "string" } },
                              "required": ["text"] },
            "class": "effect",
            "timing": "network",
            "deadline_ms": 20_000,
            "parallel": false,
            "default": true,
        })
    );
    assert_eq!(catalogued(&service, "mcp__fake__look").await["class"], "effect");
    drop(service);

    let trusted = ServerSettings { is_trusted: true, ..fake.settings() };
    let service = app(trusted, &asks_for(&[])).await;
    assert_eq!(catalogued(&service, "mcp__fake__echo").await["class"], "effect");
    assert_eq!(catalogued(&service, "mcp__fake__look").await["class"], "pure");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_server_waits_for_somebody_unless_rules_say_otherwise() {
    let fake = Fake::new();
    let setup = Setup {
        tool_servers: vec![fake.settings()],
        permissions: Some(OperatorPolicy {
            default_mode: PermissionMode::AcceptEdits,
            ..OperatorPolicy::default()
        }),
        ..Setup::default()
    };
    let app = TestApp::start_with(asks_for(&["look"]), setup).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Go" })).await;
    session.reached(&run, "session.status_idle").await;
    let calls = fake.heard().into_iter().filter(|heard| heard["method"] == "tools/call");
    assert_eq!(calls.collect::<Vec<_>>(), Vec::<Value>::new());
    session.cancel(&run).await;
    session.settled(&run).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_hidden_is_shown_and_what_is_no_tool_is_left_out() {
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
            "look",
            "pings",
            "refuse",
            "stay",
            "wrong_id"
        ]
    );
    assert_eq!(catalogued(&app, "mcp__fake__echo").await["description"], "Says what it is told.");
    let shown = r"It is\u{202e} plain\u{1b}[2K.\u{200b}";
    assert_eq!(catalogued(&app, "mcp__fake__hidden").await["description"], shown);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_tools_that_the_operator_names_are_offered() {
    let fake = Fake::new();
    let only = Some(vec!["look".to_owned(), "echo".to_owned(), "nothing".to_owned()]);
    let settings = ServerSettings { only, withheld: vec!["echo".to_owned()], ..fake.settings() };
    let app = app(settings, &asks_for(&[])).await;
    assert_eq!(offered(&app).await, ["mcp__fake__look"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_has_the_environment_that_is_named_for_it_and_no_other() {
    let fake = Fake::new();
    let app = fake.app(&["environment"]).await;
    let session = app.session().await;
    session.ask("Go").await;
    assert_eq!(results(&session).await, [("GIVEN=yes ".to_owned(), false)]);
}
