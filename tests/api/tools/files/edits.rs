//! `Edit`, `MultiEdit` and `Write`: the changes, the refusals and the results.

use std::fs;

use serde_json::{Value, json};

use super::{edit, failure, outcome, read, run, service, success, updated, write};
use crate::support::Setup;

fn multi_edit(path: &str, edits: &[(&str, &str)]) -> (&'static str, Value) {
    let edits: Vec<Value> =
        edits.iter().map(|(old, new)| json!({ "old_string": old, "new_string": new })).collect();
    ("MultiEdit", json!({ "file_path": path, "edits": edits }))
}

fn lines(count: usize) -> String {
    (1..=count).fold(String::new(), |text, n| text + &format!("line {n}\n"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_changes_the_file_and_returns_the_lines_around_it() {
    let before = lines(12);
    let app = service(&[read("a.txt"), edit("a.txt", "line 8", "LINE 8")], Setup::default()).await;
    app.write_file("a.txt", &before);
    let results = run(&app).await;
    let snippet: Vec<String> =
        (4..=12).map(|n| format!("{n:>6}→{} {n}", if n == 8 { "LINE" } else { "line" })).collect();
    assert_eq!(results[1], updated("a.txt", &snippet.join("\n")));
    let after = fs::read_to_string(app.folder.path().join("a.txt")).unwrap();
    assert_eq!(after, before.replace("line 8", "LINE 8"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_does_not_match_changes_nothing() {
    let content = "one two two\n";
    let app = service(
        &[
            read("a.txt"),
            edit("a.txt", "three", "3"),
            edit("a.txt", "two", "2"),
            edit("a.txt", "one", "one"),
            edit("a.txt", "", "x"),
            edit("b.txt", "x", "y"),
        ],
        Setup::default(),
    )
    .await;
    app.write_file("a.txt", content);
    assert_eq!(
        run(&app).await[1..],
        [
            failure("old_string not found in file"),
            failure(
                "old_string occurs 2 times in the file: include more of the surrounding text, or \
                 set replace_all"
            ),
            failure("old_string and new_string are the same"),
            failure("old_string is empty, and the file is not"),
            failure("b.txt: there is no such file; to create it, use an empty old_string"),
        ]
    );
    assert_eq!(fs::read_to_string(app.folder.path().join("a.txt")).unwrap(), content);
    let session = app.session().await;
    let run = session.ask("And the types?").await;
    assert_eq!(run["status"], "completed");
    let types: Vec<Value> = session
        .events()
        .await
        .iter()
        .filter(|event| event["is_error"] == true)
        .map(|event| json!([event["error_type"], event["handling"]]))
        .collect();
    assert_eq!(types[0], json!(["VALIDATION_ERROR", "FAIL"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_occurrences_are_replaced_with_replace_all() {
    let all = json!({ "file_path": "a", "old_string": "two", "new_string": "2",
                      "replace_all": true });
    let results =
        outcome(&[("a", "two\none\ntwo\n")], &[read("a"), ("Edit", all)], Setup::default()).await;
    assert_eq!(results[1], updated("a", "     1→2\n     2→one\n     3→2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn multiple_edits_are_made_in_order_or_not_at_all() {
    let app = service(
        &[
            read("a.txt"),
            multi_edit("a.txt", &[("one", "two"), ("two", "three")]),
            multi_edit("a.txt", &[("three", "four"), ("four", "five"), ("three", "six")]),
        ],
        Setup::default(),
    )
    .await;
    app.write_file("a.txt", "one\n");
    assert_eq!(
        run(&app).await[1..],
        [
            updated("a.txt", "     1→three"),
            failure("edit 3 of 3: old_string not found in file; no edit was made"),
        ]
    );
    assert_eq!(fs::read_to_string(app.folder.path().join("a.txt")).unwrap(), "three\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_needs_no_read_and_an_existing_file_does() {
    let unread = "File has not been read yet. Read it first before writing to it.";
    let app = service(
        &[
            write("new/a.txt", "one\ntwo\n"),
            write("new/a.txt", "one\n2\n"),
            write("old.txt", "mine"),
            read("old.txt"),
            write("old.txt", "mine"),
            edit("made.txt", "", "made\n"),
        ],
        Setup::default(),
    )
    .await;
    app.write_file("old.txt", "theirs\n");
    assert_eq!(
        run(&app).await,
        [
            updated("new/a.txt", "     1→one\n     2→two"),
            updated("new/a.txt", "     1→one\n     2→2"),
            failure(unread),
            success("     1→theirs"),
            updated("old.txt", "     1→mine"),
            updated("made.txt", "     1→made"),
        ]
    );
    assert_eq!(fs::read_to_string(app.folder.path().join("old.txt")).unwrap(), "mine");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_outside_of_an_edit_do_not_change() {
    let utf16 = |text: &str| -> Vec<u8> {
        [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect()
    };
    let mixed = |second: &str| format!("\u{feff}one\r\n{second}\nthree\r\nfour");
    let app = service(
        &[
            read("mixed"),
            edit("mixed", "one\ntwo\nthree", "one\n2\nthree"),
            read("wide"),
            edit("wide", "two", "2\n2"),
            read("latin"),
            edit("latin", "caf", "x"),
        ],
        Setup::default(),
    )
    .await;
    app.write_file("mixed", &mixed("two"));
    fs::write(app.folder.path().join("wide"), utf16("one\r\ntwo\r\n→\r\n")).unwrap();
    fs::write(app.folder.path().join("latin"), b"caf\xe9").unwrap();
    let results = run(&app).await;
    assert_eq!(results[0], success("     1→one\n     2→two\n     3→three\n     4→four"));
    let shown = "     1→caf\u{fffd}\n[some bytes are neither UTF-8 nor UTF-16; they are shown as \
                 \u{fffd}]";
    assert_eq!(results[4], success(shown));
    let refused = "latin is neither UTF-8 nor UTF-16, and an edit would damage it; to replace it, \
                   write the whole file";
    assert_eq!(results[5], failure(refused));
    let bytes = |name: &str| fs::read(app.folder.path().join(name)).unwrap();
    assert_eq!(bytes("mixed"), mixed("2").into_bytes());
    assert_eq!(bytes("wide"), utf16("one\r\n2\r\n2\r\n→\r\n"));
    assert_eq!(bytes("latin"), b"caf\xe9");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_may_be_relative_or_start_with_workspace() {
    let app = service(
        &[read("/workspace/a"), edit("a", "one", "two"), edit("/workspace/a", "two", "three")],
        Setup::default(),
    )
    .await;
    app.write_file("a", "one\n");
    assert_eq!(
        run(&app).await,
        [
            success("     1→one"),
            updated("a", "     1→two"),
            updated("/workspace/a", "     1→three")
        ]
    );
}
