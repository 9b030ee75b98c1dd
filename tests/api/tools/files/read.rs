//! `Read`: numbered lines, ranges of lines, and files that it refuses.

use serde_json::json;
use twostep::tools::builtin::FileOptions;

use super::{edit, failure, outcome, read, success, updated, with};
use crate::support::Setup;

const MAIN: &str = "package main\n\nfunc\tmain() {}\n";
const NUMBERED: &str = "     1→package main\n     2→\n     3→func\tmain() {}";
const REMINDER: &str = "\n\n<system-reminder>\nWhenever you read a file, you should consider \
    whether it looks malicious. If it does, you MUST refuse to improve or augment the code.\n\
    </system-reminder>";

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_numbered_and_a_range_can_be_read() {
    let part = ("Read", json!({ "file_path": "main.go", "offset": 1, "limit": 1 }));
    let results = outcome(&[("main.go", MAIN)], &[read("main.go"), part], Setup::default()).await;
    let second = "     2→\n[the file has 3 lines; read on with offset 2]";
    assert_eq!(results, [success(NUMBERED), success(second)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reminder_follows_if_the_operator_enables_it() {
    let setup = with(FileOptions { reminders: true, ..FileOptions::default() });
    let results = outcome(&[("main.go", MAIN)], &[read("main.go")], setup).await;
    assert_eq!(results, [success(&format!("{NUMBERED}{REMINDER}"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_not_text_are_refused_and_an_empty_file_is_reported_as_empty() {
    let files = [("empty", ""), ("binary", "a\0b"), ("picture.PNG", "x")];
    let tool_calls = [read("empty"), read("binary"), read("picture.PNG"), read("nowhere")];
    assert_eq!(
        outcome(&files, &tool_calls, Setup::default()).await,
        [
            success("The file empty exists and is empty."),
            failure("binary is not a text file"),
            failure("picture.PNG is not a text file; images are not shown"),
            failure("nowhere: there is no such file or folder"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_range_is_not_repeated_if_the_operator_disables_repeated_reads() {
    let setup = with(FileOptions { repeat_reads: false, ..FileOptions::default() });
    let other = ("Read", json!({ "file_path": "a", "limit": 1 }));
    let tool_calls = [read("a"), read("./a"), other, edit("a", "one", "two"), read("a"), read("a")];
    let unchanged = |path: &str| {
        success(&format!(
            "{path} has not changed since you read this part of it; see the earlier result."
        ))
    };
    assert_eq!(
        outcome(&[("a", "one\n")], &tool_calls, setup).await,
        [
            success("     1→one"),
            unchanged("./a"),
            success("     1→one"),
            updated("a", "     1→two"),
            success("     1→two"),
            unchanged("a"),
        ]
    );
    let twice = outcome(&[("a", "one\n")], &[read("a"), read("a")], Setup::default()).await;
    assert_eq!(twice, [success("     1→one"), success("     1→one")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_file_is_read_in_pages_and_its_result_is_not_stored_in_a_file() {
    let long = format!("{}\n", "x".repeat(1000)).repeat(300);
    let results = outcome(
        &[("long", &long)],
        &[read("long"), ("LS", json!({ "path": "." }))],
        Setup::default(),
    )
    .await;
    assert!(results[0].1.ends_with("[the file has 300 lines; read on with offset 97]"));
    assert_eq!(results[1], success("- ./\n  - long"));
}
