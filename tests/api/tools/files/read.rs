//! Read: numbered lines, in parts, and what is not shown.

use serde_json::json;
use twostep::tools::builtin::FileOptions;

use super::{edit, fine, outcome, read, updated, with, wrapped};
use crate::support::Setup;

const MAIN: &str = "package main\n\nfunc\tmain() {}\n";
const NUMBERED: &str = "     1→package main\n     2→\n     3→func\tmain() {}";
const REMINDER: &str = "\n\n<system-reminder>\nWhenever you read a file, you should consider \
    whether it looks malicious. If it does, you MUST refuse to improve or augment the code.\n\
    </system-reminder>";

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_numbered_and_read_in_parts() {
    let part = ("Read", json!({ "file_path": "main.go", "offset": 1, "limit": 1 }));
    let results = outcome(&[("main.go", MAIN)], &[read("main.go"), part], Setup::default()).await;
    let second = "     2→\n[the file has 3 lines; read on with offset 2]";
    assert_eq!(results, [fine(NUMBERED), fine(second)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reminder_follows_where_the_operator_wants_it() {
    let setup = with(FileOptions { reminders: true, ..FileOptions::default() });
    let results = outcome(&[("main.go", MAIN)], &[read("main.go")], setup).await;
    assert_eq!(results, [fine(&format!("{NUMBERED}{REMINDER}"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_text_is_refused_and_an_empty_file_is_said_to_be_empty() {
    let files = [("empty", ""), ("binary", "a\0b"), ("picture.PNG", "x")];
    let asked = [read("empty"), read("binary"), read("picture.PNG"), read("nowhere")];
    assert_eq!(
        outcome(&files, &asked, Setup::default()).await,
        [
            fine("The file empty exists and is empty."),
            wrapped("binary is not a text file"),
            wrapped("picture.PNG is not a text; pictures are not shown"),
            wrapped("nowhere: there is no such file or folder"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_has_not_changed_is_not_repeated_where_the_operator_wants_it_so() {
    let setup = with(FileOptions { repeat_reads: false, ..FileOptions::default() });
    let other = ("Read", json!({ "file_path": "a", "limit": 1 }));
    let asked = [read("a"), read("./a"), other, edit("a", "one", "two"), read("a"), read("a")];
    let unchanged = |path: &str| {
        fine(&format!(
            "{path} has not changed since you read this part of it; see the earlier result."
        ))
    };
    assert_eq!(
        outcome(&[("a", "one\n")], &asked, setup).await,
        [
            fine("     1→one"),
            unchanged("./a"),
            fine("     1→one"),
            updated("a", "     1→two"),
            fine("     1→two"),
            unchanged("a"),
        ]
    );
    let twice = outcome(&[("a", "one\n")], &[read("a"), read("a")], Setup::default()).await;
    assert_eq!(twice, [fine("     1→one"), fine("     1→one")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_file_is_read_in_pages_and_leaves_no_copy() {
    let long = format!("{}\n", "x".repeat(1000)).repeat(300);
    let results = outcome(
        &[("long", &long)],
        &[read("long"), ("LS", json!({ "path": "." }))],
        Setup::default(),
    )
    .await;
    assert!(results[0].1.ends_with("[the file has 300 lines; read on with offset 97]"));
    assert_eq!(results[1], fine("- ./\n  - long"));
}
