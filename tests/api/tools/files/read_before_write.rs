//! A file is read before it is changed, whoever the worker is.

use serde_json::json;
use twostep::tools::builtin::FileOptions;

use super::{edit, fine, outcome, read, results, run, script, service, updated, with, wrapped};
use crate::support::{Setup, TestApp};

const UNREAD: &str = "File has not been read yet. Read it first before writing to it.";
const CHANGED: &str =
    "File has been changed since it was read. Read it again before writing to it.";

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_file_is_not_edited_and_a_read_one_is_again_and_again() {
    let asked = [edit("a", "1", "2"), read("a"), edit("a", "1", "2"), edit("./a", "2", "3")];
    let app = service(&asked, Setup::default()).await;
    app.write_file("a", "1\n");
    assert_eq!(
        run(&app).await,
        [wrapped(UNREAD), fine("     1→1"), updated("a", "     1→2"), updated("./a", "     1→3"),]
    );
    // What the model is sent is what the history says.
    let body = app.upstream().text(1);
    assert!(body.contains(&format!("<tool_use_error>{UNREAD}</tool_use_error>")), "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_session_has_read_no_other_has() {
    let app = TestApp::start(json!({ "conversations": [
        { "when": "read", "replies": script(&[read("a")])["conversations"][0]["replies"] },
        { "when": "edit", "replies": script(&[edit("a", "1", "2")])["conversations"][0]["replies"] },
    ], "otherwise": "refuse" }))
    .await;
    app.write_file("a", "1\n");
    app.session().await.ask("Please read").await;
    let other = app.session().await;
    other.ask("Please edit").await;
    assert_eq!(results(&other).await, [wrapped(UNREAD)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_forgets_no_file_and_a_change_from_outside_is_noticed() {
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
    assert_eq!(results(&session).await[2..], [updated("a", "     1→2"), wrapped(CHANGED)]);
    let errors = session.events().await.into_iter().filter(|event| event["is_error"] == true);
    let types: Vec<_> =
        errors.map(|event| (event["error_type"].clone(), event["handling"].clone())).collect();
    assert_eq!(types, [(json!("READ_REQUIRED"), json!("READ_FIRST"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plain_tool_asks_for_a_reading_only_where_the_operator_wants_it() {
    let write = ("write_file", json!({ "path": "a", "content": "2" }));
    let read = ("read_file", json!({ "path": "a" }));
    let asked = [write.clone(), read, write];
    let files = FileOptions { read_before_write: true, ..FileOptions::default() };
    let written = fine("Written successfully.");
    assert_eq!(
        outcome(&[("a", "1")], &asked, with(files)).await,
        [(true, format!("Error: {UNREAD}")), fine("1"), written.clone()]
    );
    let freely = outcome(&[("a", "1")], &asked, Setup::default()).await;
    assert_eq!(freely, [written.clone(), fine("2"), written]);
}
