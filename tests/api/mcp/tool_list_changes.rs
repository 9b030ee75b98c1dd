//! Changes of a server's list of tools while sessions use it.

use serde_json::{Value, json};

use super::fake_server::{Fake, metric, offered, results, script_calling, wait_until};
use crate::support::{Session, Setup, TestApp, calls, replies, says};

/// The reported changes of a session: for each event, the server's own names of the tools that were
/// added, removed and changed.
async fn reported_changes(session: &Session<'_>) -> Vec<[Vec<String>; 3]> {
    let names_of = |event: &Value| {
        assert_eq!(event["server"], "fake");
        ["added", "removed", "changed"].map(|key| {
            let names = event[key].as_array().unwrap().iter();
            let names = names.map(|name| name.as_str().unwrap().strip_prefix("mcp__fake__"));
            names.map(|name| name.unwrap().to_owned()).collect()
        })
    };
    let events = session.events().await;
    let changes = events.iter().filter(|event| event["type"] == "session.tool_server_changed");
    changes.map(names_of).collect()
}

fn lists(lists: [&[&str]; 3]) -> [Vec<String>; 3] {
    lists.map(|names| names.iter().map(|name| (*name).to_owned()).collect())
}

/// The names of the MCP tools in each request to the model.
fn sent(app: &TestApp) -> Vec<Vec<String>> {
    let names = |body: &Value| {
        let tools = body["tools"].as_array().unwrap().iter();
        let names = tools.map(|tool| tool["name"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with("mcp__")).collect()
    };
    let upstream = app.upstream();
    (0..upstream.len()).map(|index| names(&upstream.body(index))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_keeps_its_pinned_list_and_a_new_session_gets_the_new_list() {
    let fake = Fake::new();
    let script = json!({ "conversations": [
        { "when": "first", "replies": [calls("mcp__fake__change", json!({})), says("Changed.")] },
        { "when": "again", "replies": [calls("mcp__fake__inspect", json!({})), says("Gone.")] },
        { "when": "new", "replies": [calls("mcp__fake__fresh", json!({})), says("Done.")] },
    ], "otherwise": "refuse" });
    let setup = Setup { tool_servers: vec![fake.settings()], ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let old = app.session().await;
    old.ask("first").await;
    wait_until("the catalog did not change", async || offered(&app).await.len() == 2).await;
    assert_eq!(offered(&app).await, ["mcp__fake__echo", "mcp__fake__fresh"]);

    old.ask("again").await;
    let not_offered = "Error: the tool server fake does not offer mcp__fake__inspect now";
    let expected = [("It is done.".to_owned(), false), (not_offered.to_owned(), true)];
    assert_eq!(results(&old).await, expected);
    let new = app.session().await;
    new.ask("new").await;
    assert_eq!(results(&new).await, [("It is new.".to_owned(), false)]);

    let lists = sent(&app);
    assert_eq!(lists.iter().map(Vec::len).collect::<Vec<_>>(), [14, 14, 14, 14, 2, 2]);
    assert_eq!(metric(&app, r#"twostep_mcp_list_changes_total{server="fake"}"#).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_a_removed_tool_fails_without_an_approval() {
    let fake = Fake::new();
    let permissions = twostep::tools::policy::OperatorPolicy::default();
    let setup = Setup {
        tool_servers: vec![fake.settings()],
        permissions: Some(permissions),
        ..Setup::default()
    };
    let script = replies(&[calls("mcp__fake__inspect", json!({})), says("Gone.")]);
    let app = TestApp::start_with(script.clone(), setup).await;
    let id = app.session().await.id;
    let missing = twostep::tools::mcp::ServerSettings {
        only: Some(vec!["echo".to_owned()]),
        ..fake.settings()
    };
    let setup = Setup {
        tool_servers: vec![missing],
        permissions: Some(twostep::tools::policy::OperatorPolicy::default()),
        ..Setup::default()
    };
    let app = app.restarted_with(script, setup).await;
    let session = app.existing_session(&id);
    let run = session.ask("Go").await;
    assert_eq!(run["status"], "completed");
    let not_offered = "Error: the tool server fake does not offer mcp__fake__inspect now";
    assert_eq!(results(&session).await, [(not_offered.to_owned(), true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_list_is_reported_once_to_each_session_that_uses_the_server() {
    let fake = Fake::new();
    let script = script_calling(&["change"]);
    let setup = || Setup { tool_servers: vec![fake.settings()], ..Setup::default() };
    let app = TestApp::start_with(script, setup()).await;
    let all_tools = app.session().await;
    let one_tool = app.session_with(json!({ "tools": ["mcp__fake__inspect"] })).await;
    let no_tools = app.session_with(json!({ "tools": ["get_time"] })).await;
    all_tools.ask("Go").await;
    wait_until("the catalog did not change", async || offered(&app).await.len() == 2).await;
    let new = app.session().await;
    for _ in 0..2 {
        for session in [&all_tools, &one_tool, &no_tools, &new] {
            session.ask("Go on").await;
        }
    }
    let removed = [
        "change",
        "crash",
        "environment",
        "fail",
        "flood",
        "hang",
        "huge",
        "inspect",
        "picture",
        "pings",
        "refuse",
        "spawn",
        "wrong_id",
    ];
    assert_eq!(reported_changes(&all_tools).await, [lists([&["fresh"], &removed, &["echo"]])]);
    assert_eq!(reported_changes(&one_tool).await, [lists([&["fresh"], &["inspect"], &[]])]);
    assert_eq!(reported_changes(&no_tools).await, Vec::<[Vec<String>; 3]>::new());
    assert_eq!(reported_changes(&new).await, Vec::<[Vec<String>; 3]>::new());

    // After a restart, the change is not reported again.
    let id = all_tools.id.clone();
    let app = app.restarted_with(script_calling(&[]), setup()).await;
    let all_tools = app.existing_session(&id);
    all_tools.ask("Go on").await;
    assert_eq!(reported_changes(&all_tools).await.len(), 1);

    fake.restore_tools();
    let app = app.restarted_with(script_calling(&[]), setup()).await;
    let all_tools = app.existing_session(&id);
    for _ in 0..2 {
        all_tools.ask("Go on").await;
    }
    assert_eq!(reported_changes(&all_tools).await[1..], [lists([&[], &[], &[]])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_list_is_reported_during_a_run() {
    let fake = Fake::new();
    let app = fake.app(&["change", "echo", "echo"]).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Go" })).await;
    assert_eq!(session.settled(&run).await["status"], "completed");
    wait_until("the change was not reported", async || reported_changes(&session).await.len() == 1)
        .await;
}
