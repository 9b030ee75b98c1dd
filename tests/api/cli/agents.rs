//! `twostep agents`, and the option `--agent`.

use serde_json::{Value, json};

use super::{run_command, sessions, stdout_of};
use crate::support::{TestApp, replies, says};

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_listed_and_shown() {
    let app = TestApp::start(replies(&[])).await;
    let profile =
        json!({ "description": "Finds\u{1b}[2J.", "system": "You\nfind.", "max_tokens": 7 });
    for profile in [json!({}), profile] {
        let put = app.client.put(app.url("/v1/agents/librarian")).json(&profile);
        assert!(put.send().await.unwrap().status().is_success());
    }
    let table = stdout_of(run_command(&app, &["agents", "list"]).await);
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "VERSION", "SOURCE", "DESCRIPTION"]);
    assert_eq!(rows[1][..3], ["coder", "1", "builtin"]);
    assert_eq!(rows[4], ["librarian", "2", "tenant", r"Finds\u{1b}[2J."]);
    let lines = stdout_of(run_command(&app, &["agents", "list", "--json"]).await);
    let listed: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let page: Value = app.get("/v1/agents").send().await.unwrap().json().await.unwrap();
    assert_eq!(json!(listed), page["data"]);

    let shown = stdout_of(run_command(&app, &["agents", "show", "librarian"]).await);
    let expected = "librarian version 2 (tenant)\nFinds\\u{1b}[2J.\n\n\
                    {\n  \"max_tokens\": 7\n}\n\nYou\nfind.\n";
    assert_eq!(shown, expected);
    assert_eq!(
        stdout_of(run_command(&app, &["agents", "show", "librarian@1"]).await),
        "librarian version 1 (tenant)\n"
    );
    let shown = stdout_of(run_command(&app, &["agents", "show", "coder"]).await);
    assert!(shown.contains("\ntools not available here: Bash, WebFetch, WebSearch\n"), "{shown}");
    let json = stdout_of(run_command(&app, &["agents", "show", "--json", "librarian@1"]).await);
    let agent = app.get("/v1/agents/librarian?version=1").send().await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), agent.json::<Value>().await.unwrap());
    let (status, _, stderr) = run_command(&app, &["agents", "show", "painter"]).await;
    assert_eq!(status, Some(1));
    assert!(stderr.contains("there is no agent painter"), "{stderr}");
    assert_eq!(run_command(&app, &["agents", "show", "Not a name"]).await.0, Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_creates_a_session_with_an_agent() {
    let app = TestApp::start(replies(&[says("Yes.")])).await;
    let args = ["run", "--agent", "coder@1", "--tools", "Read", "Are you there?"];
    assert_eq!(stdout_of(run_command(&app, &args).await), "Yes.\n");
    let session = &sessions(&app).await[0];
    let created = json!([session["agent"], session["tools"], session["limits"]]);
    assert_eq!(created, json!([{ "name": "coder", "version": 1 }, ["Read"], { "rounds": 100 }]));
    let id = session["id"].as_str().unwrap();
    let shown = stdout_of(run_command(&app, &["sessions", "show", id]).await);
    assert!(shown.contains("\nagent            coder@1\n"), "{shown}");
    let (status, _, stderr) = run_command(&app, &["run", "--agent", "painter", "Hello"]).await;
    assert_eq!(status, Some(1));
    assert!(stderr.contains("is painter, but there is no such agent"), "{stderr}");
}
