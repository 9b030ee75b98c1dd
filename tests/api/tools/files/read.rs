//! `Read`: numbered lines, ranges of lines, and files that it refuses.

use std::fs;

use serde_json::{Value, json};
use twostep::tools::builtin::FileOptions;
use twostep::tools::pdf::Reader;

use super::{edit, failure, outcome, read, script, success, updated, with};
use crate::support::media::{pixel, png};
use crate::support::{Session, Setup, TestApp};

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
    let files = [("empty", ""), ("binary", "a\0b"), ("plain.png", "x")];
    let tool_calls = [read("empty"), read("binary"), read("plain.png"), read("nowhere")];
    assert_eq!(
        outcome(&files, &tool_calls, Setup::default()).await,
        [
            success("The file empty exists and is empty."),
            failure("binary is not a text file"),
            success("     1→x"),
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

/// The blocks of a request's last result.
fn result_blocks(app: &TestApp, request: usize) -> Value {
    let body = app.upstream().body(request);
    let last = body["messages"].as_array().unwrap().last().unwrap();
    last["content"][0]["content"].clone()
}

/// The text of the first result, as its event reports it.
async fn reported(session: &Session<'_>) -> Value {
    let events = session.events().await;
    let event = events.into_iter().find(|event| event["type"] == "agent.tool_result").unwrap();
    event["content"][0]["text"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_receives_an_image_and_events_name_it() {
    let app = TestApp::start(script(&[read("picture")])).await;
    let pixel = pixel();
    let bytes = twostep::domain::image::decode(pixel["source"]["data"].as_str().unwrap()).unwrap();
    fs::write(app.folder.path().join("picture"), bytes).unwrap();
    let session = app.session().await;
    assert_eq!(session.ask("Go").await["output_text"], "Done.");
    let expected = json!([{ "type": "text", "text": "[image/png, 70 bytes]" }, pixel]);
    assert_eq!(result_blocks(&app, 1), expected);
    assert_eq!(session.history().await[2]["message"]["content"][0]["content"], expected);
    assert_eq!(reported(&session).await, "[image/png, 70 bytes]");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_the_model_would_refuse_is_an_error() {
    let app = TestApp::start(script(&[read("wide.png")])).await;
    fs::write(app.folder.path().join("wide.png"), png(2001, 0)).unwrap();
    let session = app.session().await;
    session.ask("Go").await;
    let expected =
        "<tool_use_error>wide.png is 2001x1 pixels; at most 2000x2000 is allowed</tool_use_error>";
    assert_eq!(result_blocks(&app, 1), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_text_of_a_pdf_is_returned_by_lines() {
    let mut setup = Setup::default();
    setup.options.documents = Reader::with_helper(env!("CARGO_BIN_EXE_twostep").into());
    let app = TestApp::start_with(script(&[read("plain.pdf")]), setup).await;
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/pdf/plain.pdf");
    fs::copy(source, app.folder.path().join("plain.pdf")).unwrap();
    app.session().await.ask("Go").await;
    let text = result_blocks(&app, 1);
    assert!(text.as_str().unwrap().starts_with("     1→"), "{text}");
}
