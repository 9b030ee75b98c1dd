//! `twostep sessions` and `twostep tools`.

use serde_json::{Value, json};
use twostep::domain::permission::PermissionMode;
use twostep::tools::policy::OperatorPolicy;

use super::{Terminal, run_command, sessions, stdout_of};
use crate::support::{Setup, TestApp, calls, hangs_first, replies, says, stops_short};

/// The lines of a table, split into words.
fn rows(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

fn objects(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_newest_first() {
    let app = TestApp::start(replies(&[])).await;
    let nothing = (Some(0), String::new(), "no sessions\n".to_owned());
    assert_eq!(run_command(&app, &["sessions", "list"]).await, nothing);
    let first = app.session_with(json!({ "title": "One\u{1b}[2J\nmore" })).await;
    let second = app.session().await;
    let table = stdout_of(run_command(&app, &["sessions", "list"]).await);
    let rows = rows(&table);
    assert_eq!(rows[0], ["ID", "STATUS", "UPDATED", "(UTC)", "TITLE"]);
    let columns = |row: &[&str]| (row[0].to_owned(), row[1].to_owned(), row[4..].join(" "));
    let listed = rows[1..].iter().map(|row| columns(row));
    assert_eq!(
        listed.collect::<Vec<_>>(),
        [
            (second.id.clone(), "idle".to_owned(), String::new()),
            (first.id.clone(), "idle".to_owned(), r"One\u{1b}[2J more".to_owned()),
        ]
    );

    let json = stdout_of(run_command(&app, &["sessions", "list", "--json"]).await);
    assert_eq!(objects(&json), sessions(&app).await);
    let (status, json, stderr) =
        run_command(&app, &["sessions", "--json", "list", "--limit", "1"]).await;
    assert_eq!((status, objects(&json)), (Some(0), vec![second.read().await]));
    assert_eq!(stderr, "More sessions exist: use a larger --limit.\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_a_list_may_exceed_one_page() {
    let app = TestApp::start(replies(&[])).await;
    for _ in 0..203 {
        app.session().await;
    }
    for (limit, expected) in [("201", 201), ("300", 203)] {
        let (status, json, _) =
            run_command(&app, &["sessions", "list", "--json", "--limit", limit]).await;
        assert_eq!((status, json.lines().count()), (Some(0), expected));
    }
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_shown_with_its_messages() {
    let script = replies(&[
        calls("read_file", json!({ "path": "nowhere" })),
        says("There is\nno such file."),
    ]);
    let app = TestApp::start(script).await;
    let session = app.session_with(json!({ "title": "Looking" })).await;
    session.ask("Read it\nplease").await;
    let shown = stdout_of(run_command(&app, &["sessions", "show", &session.id]).await);
    let (head, rest) = shown.split_once("\n\n").unwrap();
    assert!(head.contains(&format!("id               {}", session.id)), "{head}");
    assert!(head.contains("title            Looking"), "{head}");
    let created = head.lines().find_map(|line| line.strip_prefix("created          ")).unwrap();
    let expected = session.read().await["created_at"].as_str().unwrap()[..19].replace('T', " ");
    assert_eq!(created, format!("{expected} UTC"));
    let (messages, failed) = rest.split_once("  failed: ").unwrap();
    assert_eq!(messages, "> Read it\n> please\n· read_file {\"path\":\"nowhere\"}\n");
    assert!(failed.ends_with("\n\nThere is\nno such file.\n"), "{failed}");

    let json = stdout_of(run_command(&app, &["sessions", "show", "--json", &session.id]).await);
    let mut expected =
        json!({ "session": session.read().await, "messages": session.history_with_events().await });
    let mut shown: Value = serde_json::from_str(&json).unwrap();
    // Results of failed calls are shown without their tags.
    shown["messages"][2].take();
    expected["messages"][2].take();
    assert_eq!(shown, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_reply_is_shown_with_a_mark() {
    let app = TestApp::start(replies(&[stops_short("Half of it is said.")])).await;
    let session = app.session().await;
    let mut stream = session.stream("Tell me").await;
    let delta = stream.until("event_delta").await;
    let run = json!({ "id": delta.data["run_id"] });
    session.cancel(&run).await;
    session.settled(&run).await;
    let shown = stdout_of(run_command(&app, &["sessions", "show", &session.id]).await);
    let (_, messages) = shown.split_once("> Tell me\n").unwrap();
    assert!(messages.starts_with("\nHalf"), "{messages}");
    assert!(messages.ends_with("\n[interrupted]\n"), "{messages}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_session_is_distinguished_from_an_idle_session() {
    let default_mode = PermissionMode::Default;
    let permissions = Some(OperatorPolicy { default_mode, ..OperatorPolicy::default() });
    let setup = Setup { permissions, ..Setup::default() };
    let script =
        replies(&[calls("write_file", json!({ "path": "a.txt", "content": "a" })), says("Done.")]);
    let app = TestApp::start_with(script, setup).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "Go" })).await;
    session.reached(&run, "session.status_idle").await;
    let table = stdout_of(run_command(&app, &["sessions", "list"]).await);
    assert_eq!(rows(&table)[1][1], "waiting");
    let shown = stdout_of(run_command(&app, &["sessions", "show", &session.id]).await);
    assert!(shown.contains("status           waiting"), "{shown}");
    session.cancel(&run).await;
    session.settled(&run).await;
    let table = stdout_of(run_command(&app, &["sessions", "list"]).await);
    assert_eq!(rows(&table)[1][1], "idle");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_stops_the_active_run_of_a_session() {
    let app = TestApp::start(hangs_first()).await;
    let session = app.session().await;
    let run = session.post(json!({ "content": "hang" })).await;
    session.reached(&run, "session.status_running").await;
    let stopped = stdout_of(run_command(&app, &["sessions", "cancel", &session.id]).await);
    assert_eq!(rows(&stopped)[1][0], run["id"]);
    assert_eq!(session.settled(&run).await["status"], "cancelled");
    let nothing = (Some(0), String::new(), "no run is active\n".to_owned());
    assert_eq!(run_command(&app, &["sessions", "cancel", &session.id]).await, nothing);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_renamed() {
    let app = TestApp::start(replies(&[])).await;
    let session = app.session().await;
    let renamed =
        stdout_of(run_command(&app, &["sessions", "rename", &session.id, "The build"]).await);
    assert!(renamed.ends_with("The build\n"), "{renamed}");
    assert_eq!(session.read().await["title"], "The build");
    let long = "x".repeat(501);
    let (status, stdout, stderr) =
        run_command(&app, &["sessions", "rename", &session.id, &long]).await;
    assert_eq!((status, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("/title"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_deleted_only_after_a_confirmation() {
    let app = TestApp::start(replies(&[])).await;
    let [one, two, three] = [app.session().await, app.session().await, app.session().await];
    let (status, stdout, stderr) = run_command(&app, &["sessions", "rm", &one.id]).await;
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("--yes"), "{stderr}");
    assert_eq!(sessions(&app).await.len(), 3);

    let deleted = stdout_of(run_command(&app, &["sessions", "rm", "--yes", &one.id]).await);
    assert_eq!(deleted, format!("{} deleted\n", one.id));
    let mut terminal = Terminal::start(&app, &["sessions", "rm", &two.id, &three.id]);
    terminal.wait_for("[y/N] ").await;
    terminal.press("\n").await;
    terminal.wait_for("Not deleted.").await;
    terminal.wait_for("[y/N] ").await;
    terminal.press("y\n").await;
    let (status, output) = terminal.exit().await;
    assert_eq!(status, Some(0), "{output}");
    let remaining: Vec<Value> =
        sessions(&app).await.iter().map(|remaining| remaining["id"].clone()).collect();
    assert_eq!(remaining, [two.id.as_str()]);
    assert_eq!(run_command(&app, &["sessions", "rm", "--yes", &one.id]).await.0, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_listed_and_their_schemas_printed() {
    let app = TestApp::start(replies(&[])).await;
    let page: Value = app.get("/v1/tools").send().await.unwrap().json().await.unwrap();
    let tools = page["data"].as_array().unwrap();
    let table = stdout_of(run_command(&app, &["tools", "list"]).await);
    let names: Vec<&str> = rows(&table)[1..].iter().map(|row| row[0]).collect();
    let expected: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, expected);
    assert_eq!(objects(&stdout_of(run_command(&app, &["tools", "list", "--json"]).await)), *tools);

    let schema = stdout_of(run_command(&app, &["tools", "schema", "get_time"]).await);
    let tool = tools.iter().find(|tool| tool["name"] == "get_time").unwrap();
    assert_eq!(serde_json::from_str::<Value>(&schema).unwrap(), tool["input_schema"]);
    let (status, _, stderr) = run_command(&app, &["tools", "schema", "nothing"]).await;
    assert_eq!((status, stderr.as_str()), (Some(1), "twostep: tool \"nothing\" does not exist\n"));
}
