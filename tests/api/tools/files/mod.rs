//! The tools that read and change files, called by the model.

mod edit_timeout;
mod edits;
mod folder_lock;
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

/// The error result of a tool that wraps its errors in `<tool_use_error>`.
fn failure(text: &str) -> (bool, String) {
    (true, format!("<tool_use_error>{text}</tool_use_error>"))
}

fn success(text: &str) -> (bool, String) {
    (false, text.to_owned())
}

/// The result of a change.
fn updated(path: &str, snippet: &str) -> (bool, String) {
    success(&format!(
        "The file {path} has been updated. Here's the result of running `cat -n` on a snippet of \
         the edited file:\n{snippet}"
    ))
}

/// The results of a session's calls in order, each with its `is_error`.
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

/// The default setup with these settings for the file tools.
fn with(files: FileOptions) -> Setup {
    let mut setup = Setup::default();
    setup.options.files = files;
    setup
}

/// Starts a service whose model makes these calls, one per round.
async fn service(tool_calls: &[(&str, Value)], setup: Setup) -> TestApp {
    TestApp::start_with(script(tool_calls), setup).await
}

fn script(tool_calls: &[(&str, Value)]) -> Value {
    let rounds = tool_calls.iter().map(|(name, input)| calls(name, input.clone()));
    replies(&rounds.chain([says("Done.")]).collect::<Vec<_>>())
}

/// The results of these calls in a workspace with these files.
async fn outcome(
    files: &[(&str, &str)],
    tool_calls: &[(&str, Value)],
    setup: Setup,
) -> Vec<(bool, String)> {
    let app = service(tool_calls, setup).await;
    for (name, content) in files {
        app.write_file(name, content);
    }
    run(&app).await
}

/// Runs the script in a new session and returns the results.
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
