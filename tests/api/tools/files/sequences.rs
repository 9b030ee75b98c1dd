//! The usual ways of a coding agent through its tools, end to end.

use std::fs;

use serde_json::{Value, json};

use super::{edit, fine, read, run, service, updated, wrapped, write};
use crate::support::Setup;

const TODOS_DONE: &str = "Todos have been modified successfully. Ensure that you continue to use \
    the todo list to track your progress. Please proceed with the current tasks if applicable";

fn todo(status: &str) -> (&'static str, Value) {
    ("TodoWrite", json!({ "todos": [{ "id": "1", "content": "Greet", "status": status }] }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_found_read_and_changed_and_the_work_noted() {
    let asked = [
        ("LS", json!({ "path": "." })),
        read("a.txt"),
        edit("a.txt", "hello", "hello world"),
        todo("completed"),
    ];
    let app = service(&asked, Setup::default()).await;
    app.write_file("a.txt", "hello\n");
    assert_eq!(
        run(&app).await,
        [
            fine("- ./\n  - a.txt"),
            fine("     1→hello"),
            updated("a.txt", "     1→hello world"),
            fine(TODOS_DONE),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_was_refused_is_made_after_a_reading() {
    let asked = [
        edit("a.txt", "hello", "bye"),
        read("a.txt"),
        edit("a.txt", "hello", "bye"),
        todo("completed"),
    ];
    let app = service(&asked, Setup::default()).await;
    app.write_file("a.txt", "hello\n");
    assert_eq!(
        run(&app).await,
        [
            wrapped("File has not been read yet. Read it first before writing to it."),
            fine("     1→hello"),
            updated("a.txt", "     1→bye"),
            fine(TODOS_DONE),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_searched_for_is_changed_and_written_whole_where_that_fails() {
    let edits = json!([
        { "old_string": "one", "new_string": "1" },
        { "old_string": "missing", "new_string": "" },
    ]);
    let asked = [
        ("Grep", json!({ "pattern": "one" })),
        read("a.txt"),
        ("MultiEdit", json!({ "file_path": "a.txt", "edits": edits })),
        write("a.txt", "1\ntwo\n"),
    ];
    let app = service(&asked, Setup::default()).await;
    app.write_file("a.txt", "one\ntwo\n");
    app.write_file("b.txt", "three\n");
    let results = run(&app).await;
    assert!(!results[0].0 && results[0].1.contains("a.txt") && !results[0].1.contains("b.txt"));
    assert_eq!(
        results[1..],
        [
            fine("     1→one\n     2→two"),
            wrapped("edit 2 of 2: old_string not found in file; no edit was made"),
            updated("a.txt", "     1→1\n     2→two"),
        ]
    );
    assert_eq!(fs::read_to_string(app.folder.path().join("a.txt")).unwrap(), "1\ntwo\n");
}
