//! The tools that read and change files, through the real socket.

mod edit_timeout;
mod edits;
mod ls;
mod notebook_edit;
mod path_attacks;
mod plain_style;
mod read;
mod read_before_write;
mod sequences;
mod workspaces;

use serde_json::{Value, json};
use twostep::tools::builtin::FileOptions;

use crate::support::{Session, Setup, TestApp, calls, replies, says};

/// A text that tells an error to the model.
fn wrapped(text: &str) -> (bool, String) {
    (true, format!("<tool_use_error>{text}</tool_use_error>"))
}

fn fine(text: &str) -> (bool, String) {
    (false, text.to_owned())
}

/// What the model is told of a change.
fn updated(path: &str, snippet: &str) -> (bool, String) {
    fine(&format!(
        "The file {path} has been updated. Here's the result of running `cat -n` on a snippet of \
         the edited file:\n{snippet}"
    ))
}

/// The results of a session's calls in their order, and whether they are errors.
async fn results(session: &Session<'_>) -> Vec<(bool, String)> {
    let history = session.history().await;
    let blocks = history.iter().filter_map(|item| item["message"]["content"].as_array());
    let results = blocks.flatten().filter(|block| block["type"] == "tool_result");
    results
        .map(|block| {
            (block["is_error"] == true, block["content"].as_str().unwrap_or_default().to_owned())
        })
        .collect()
}

/// The usual service with other settings for files.
fn with(files: FileOptions) -> Setup {
    let mut setup = Setup::default();
    setup.options.files = files;
    setup
}

/// A service whose model makes these calls, one a round.
async fn service(asked: &[(&str, Value)], setup: Setup) -> TestApp {
    TestApp::start_with(script(asked), setup).await
}

fn script(asked: &[(&str, Value)]) -> Value {
    let rounds = asked.iter().map(|(name, input)| calls(name, input.clone()));
    replies(&rounds.chain([says("Done.")]).collect::<Vec<_>>())
}

/// What comes of these calls in a workspace of these files.
async fn outcome(
    files: &[(&str, &str)],
    asked: &[(&str, Value)],
    setup: Setup,
) -> Vec<(bool, String)> {
    let app = service(asked, setup).await;
    for (name, content) in files {
        app.write_file(name, content);
    }
    run(&app).await
}

/// The results of one run of a new session.
async fn run(app: &TestApp) -> Vec<(bool, String)> {
    let session = app.session().await;
    assert_eq!(session.ask("Go").await["output_text"], "Done.");
    results(&session).await
}

fn read(path: &str) -> (&'static str, Value) {
    ("Read", json!({ "file_path": path }))
}

fn edit(path: &str, old: &str, new: &str) -> (&'static str, Value) {
    ("Edit", json!({ "file_path": path, "old_string": old, "new_string": new }))
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("Write", json!({ "file_path": path, "content": content }))
}
