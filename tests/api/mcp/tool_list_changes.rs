//! Lists of tools that change while sessions have them.

use serde_json::{Value, json};

use super::fake_server::{Fake, asks_for, figure, offered, results, until};
use crate::support::{Session, Setup, TestApp, calls, replies, says};

/// What a session was told of lists that changed: of the server, its tools that were added, removed
/// and changed, by their own names.
async fn told(session: &Session<'_>) -> Vec<[Vec<String>; 3]> {
    let of_server = |event: &Value| {
        assert_eq!(event["server"], "fake");
        ["added", "removed", "changed"].map(|key| {
            let names = event[key].as_array().unwrap().iter();
            let names = names.map(|name| name.as_str().unwrap().strip_prefix("mcp__fake__"));
            names.map(|name| name.unwrap().to_owned()).collect()
        })
    };
    let events = session.events().await;
    let told = events.iter().filter(|event| event["type"] == "session.tool_server_changed");
    told.map(of_server).collect()
}

fn lists(lists: [&[&str]; 3]) -> [Vec<String>; 3] {
    lists.map(|names| names.iter().map(|name| (*name).to_owned()).collect())
}

/// The tools that the model was sent, by name, in each request.
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
async fn a_session_keeps_the_list_that_it_began_with_and_a_new_one_gets_the_new_list() {
    let fake = Fake::new();
    let script = json!({ "conversations": [
        { "when": "first", "replies": [calls("mcp__fake__change", json!({})), says("Changed.")] },
        { "when": "again", "replies": [calls("mcp__fake__look", json!({})), says("Gone.")] },
        { "when": "new", "replies": [calls("mcp__fake__fresh", json!({})), says("Well.")] },
    ], "otherwise": "refuse" });
    let setup = Setup { tool_servers: vec![fake.settings()], ..Setup::default() };
    let app = TestApp::start_with(script, setup).await;
    let old = app.session().await;
    old.ask("first").await;
    until("the list did not change", async || offered(&app).await.len() == 2).await;
    assert_eq!(offered(&app).await, ["mcp__fake__echo", "mcp__fake__fresh"]);

    old.ask("again").await;
    let gone = "Error: the tool server fake does not offer mcp__fake__look now";
    let expected = [("It is done.".to_owned(), false), (gone.to_owned(), true)];
    assert_eq!(results(&old).await, expected);
    let young = app.session().await;
    young.ask("new").await;
    assert_eq!(results(&young).await, [("It is new.".to_owned(), false)]);

    let lists = sent(&app);
    assert_eq!(lists.iter().map(Vec::len).collect::<Vec<_>>(), [13, 13, 13, 13, 2, 2]);
    assert_eq!(figure(&app, r#"twostep_mcp_list_changes_total{server="fake"}"#).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_about_a_call_of_a_tool_that_is_gone() {
    let fake = Fake::new();
    let permissions = twostep::tools::policy::OperatorPolicy::default();
    let setup = Setup {
        tool_servers: vec![fake.settings()],
        permissions: Some(permissions),
        ..Setup::default()
    };
    let script = replies(&[calls("mcp__fake__look", json!({})), says("Gone.")]);
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
    let gone = "Error: the tool server fake does not offer mcp__fake__look now";
    assert_eq!(results(&session).await, [(gone.to_owned(), true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_told_once_that_a_server_offers_something_else() {
    let fake = Fake::new();
    let script = asks_for(&["change"]);
    let setup = || Setup { tool_servers: vec![fake.settings()], ..Setup::default() };
    let app = TestApp::start_with(script, setup()).await;
    let whole = app.session().await;
    let picky = app.session_with(json!({ "tools": ["mcp__fake__look"] })).await;
    let bare = app.session_with(json!({ "tools": ["get_time"] })).await;
    whole.ask("Go").await;
    until("the list did not change", async || offered(&app).await.len() == 2).await;
    let young = app.session().await;
    for _ in 0..2 {
        for session in [&whole, &picky, &bare, &young] {
            session.ask("Go on").await;
        }
    }
    let gone = [
        "change",
        "crash",
        "environment",
        "fail",
        "flood",
        "hang",
        "huge",
        "look",
        "pings",
        "refuse",
        "stay",
        "wrong_id",
    ];
    assert_eq!(told(&whole).await, [lists([&["fresh"], &gone, &["echo"]])]);
    assert_eq!(told(&picky).await, [lists([&["fresh"], &["look"], &[]])]);
    assert_eq!(told(&bare).await, Vec::<[Vec<String>; 3]>::new());
    assert_eq!(told(&young).await, Vec::<[Vec<String>; 3]>::new());

    // Another process knows what was told.
    let id = whole.id.clone();
    let app = app.restarted_with(asks_for(&[]), setup()).await;
    let whole = app.existing_session(&id);
    whole.ask("Go on").await;
    assert_eq!(told(&whole).await.len(), 1);

    fake.is_as_before();
    let app = app.restarted_with(asks_for(&[]), setup()).await;
    let whole = app.existing_session(&id);
    for _ in 0..2 {
        whole.ask("Go on").await;
    }
    assert_eq!(told(&whole).await[1..], [lists([&[], &[], &[]])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_goes_on_is_told_too() {
    let fake = Fake::new();
    let app = fake.app(&["change", "echo", "echo"]).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Go" })).await;
    assert_eq!(session.settled(&run).await["status"], "completed");
    until("nobody was told", async || told(&session).await.len() == 1).await;
}
