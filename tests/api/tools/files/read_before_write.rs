//! A session reads a file before it changes it, also after a restart of the service.

use serde_json::json;
use twostep::tools::builtin::FileOptions;

use super::{edit, failure, outcome, read, results, run, script, service, success, updated, with};
use crate::support::{Setup, TestApp};

const UNREAD: &str = "File has not been read yet. Read it first before writing to it.";
const CHANGED: &str =
    "File has been changed since it was read. Read it again before writing to it.";

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_file_is_not_edited_and_a_file_that_was_read_is_edited_repeatedly() {
    let tool_calls = [edit("a", "1", "2"), read("a"), edit("a", "1", "2"), edit("./a", "2", "3")];
    let app = service(&tool_calls, Setup::default()).await;
    app.write_file("a", "1\n");
    assert_eq!(
        run(&app).await,
        [
            failure(UNREAD),
            success("     1→1"),
            updated("a", "     1→2"),
            updated("./a", "     1→3"),
        ]
    );
    // The request to the model has the same text as the history.
    let body = app.upstream().text(1);
    assert!(body.contains(&format!("<tool_use_error>{UNREAD}</tool_use_error>")), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_another_session_has_read_counts_as_unread() {
    let app = TestApp::start(json!({ "conversations": [
        { "when": "read", "replies": script(&[read("a")])["conversations"][0]["replies"] },
        { "when": "edit", "replies": script(&[edit("a", "1", "2")])["conversations"][0]["replies"] },
    ], "otherwise": "refuse" }))
    .await;
    app.write_file("a", "1\n");
    app.session().await.ask("Please read").await;
    let other = app.session().await;
    other.ask("Please edit").await;
    assert_eq!(results(&other).await, [failure(UNREAD)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_the_read_files_and_a_change_by_another_program_is_detected() {
    let app = service(&[read("a"), read("b")], Setup::default()).await;
    app.write_file("a", "1\n");
    app.write_file("b", "1\n");
    let session = app.session().await;
    session.ask("Read").await;
    let id = session.id.clone();

    let app = app.restarted(script(&[edit("a", "1", "2"), edit("b", "1", "2")])).await;
    app.write_file("b", "1 and more\n");
    let session = app.existing_session(&id);
    session.ask("Edit").await;
    assert_eq!(results(&session).await[2..], [updated("a", "     1→2"), failure(CHANGED)]);
    let errors = session.events().await.into_iter().filter(|event| event["is_error"] == true);
    let types: Vec<_> =
        errors.map(|event| (event["error_type"].clone(), event["handling"].clone())).collect();
    assert_eq!(types, [(json!("READ_REQUIRED"), json!("READ_FIRST"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn write_file_needs_an_earlier_read_if_the_operator_enables_it() {
    let write = ("write_file", json!({ "path": "a", "content": "2" }));
    let read = ("read_file", json!({ "path": "a" }));
    let tool_calls = [write.clone(), read, write];
    let files = FileOptions { read_before_write: true, ..FileOptions::default() };
    let written = success("Written successfully.");
    assert_eq!(
        outcome(&[("a", "1")], &tool_calls, with(files)).await,
        [(true, format!("Error: {UNREAD}")), success("1"), written.clone()]
    );
    let without_read = outcome(&[("a", "1")], &tool_calls, Setup::default()).await;
    assert_eq!(without_read, [written.clone(), success("2"), written]);
}
