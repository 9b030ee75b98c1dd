//! Typical sequences of calls of a coding agent.

use std::fs;

use serde_json::{Value, json};

use super::{edit, failure, read, run, service, success, updated, write};
use crate::support::Setup;

const TODOS_DONE: &str = "Todos have been modified successfully. Ensure that you continue to use \
    the todo list to track your progress. Please proceed with the current tasks if applicable";

fn todo(status: &str) -> (&'static str, Value) {
    ("TodoWrite", json!({ "todos": [{ "id": "1", "content": "Greet", "status": status }] }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_listed_read_and_edited_and_the_todo_list_updated() {
    let tool_calls = [
        ("LS", json!({ "path": "." })),
        read("a.txt"),
        edit("a.txt", "hello", "hello world"),
        todo("completed"),
    ];
    let app = service(&tool_calls, Setup::default()).await;
    app.write_file("a.txt", "hello\n");
    assert_eq!(
        run(&app).await,
        [
            success("- ./\n  - a.txt"),
            success("     1→hello"),
            updated("a.txt", "     1→hello world"),
            success(TODOS_DONE),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_was_refused_succeeds_after_a_read() {
    let tool_calls = [
        edit("a.txt", "hello", "bye"),
        read("a.txt"),
        edit("a.txt", "hello", "bye"),
        todo("completed"),
    ];
    let app = service(&tool_calls, Setup::default()).await;
    app.write_file("a.txt", "hello\n");
    assert_eq!(
        run(&app).await,
        [
            failure("File has not been read yet. Read it first before writing to it."),
            success("     1→hello"),
            updated("a.txt", "     1→bye"),
            success(TODOS_DONE),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_searched_and_written_as_a_whole_after_an_edit_fails() {
    let edits = json!([
        { "old_string": "one", "new_string": "1" },
        { "old_string": "missing", "new_string": "" },
    ]);
    let tool_calls = [
        ("Grep", json!({ "pattern": "one" })),
        read("a.txt"),
        ("MultiEdit", json!({ "file_path": "a.txt", "edits": edits })),
        write("a.txt", "1\ntwo\n"),
    ];
    let app = service(&tool_calls, Setup::default()).await;
    app.write_file("a.txt", "one\ntwo\n");
    app.write_file("b.txt", "three\n");
    let results = run(&app).await;
    assert!(!results[0].0 && results[0].1.contains("a.txt") && !results[0].1.contains("b.txt"));
    assert_eq!(
        results[1..],
        [
            success("     1→one\n     2→two"),
            failure("edit 2 of 2: old_string not found in file; no edit was made"),
            updated("a.txt", "     1→1\n     2→two"),
        ]
    );
    assert_eq!(fs::read_to_string(app.folder.path().join("a.txt")).unwrap(), "1\ntwo\n");
}
