//! `Glob` and `Grep`, called by the model.

use serde_json::{Value, json};

use crate::support::{Session, TestApp, calls, replies, says};

/// The result of the only call of a round: whether it failed, and the text for the model.
async fn result(session: &Session<'_>, round: usize) -> (bool, String) {
    let block = session.history().await[2 * round]["message"]["content"][0].clone();
    (block["is_error"] == true, block["content"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn glob_lists_files_of_the_workspace_only_and_the_newest_first() {
    let glob =
        |pattern: &str, path: &str| calls("Glob", json!({ "pattern": pattern, "path": path }));
    let script = replies(&[glob("**/*.rs", "."), glob("*", "/etc"), says("Two files.")]);
    let app = TestApp::start(script).await;
    app.write_file("old.rs", "fn old() {}\n");
    app.write_file("new.rs", "fn new() {}\n");
    app.write_file("other.md", "# Other\n");
    let epoch = std::time::SystemTime::UNIX_EPOCH;
    std::fs::File::open(app.folder.path().join("old.rs")).unwrap().set_modified(epoch).unwrap();
    let session = app.session().await;
    assert_eq!(session.ask("Which Rust files are there?").await["output_text"], "Two files.");
    assert_eq!(result(&session, 1).await, (false, "new.rs\nold.rs\n".to_owned()));
    let refused = "<tool_use_error>/etc: it is outside of the workspace, or not allowed\
        </tool_use_error>";
    assert_eq!(result(&session, 2).await, (true, refused.to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn grep_finds_lines_and_an_invalid_pattern_is_an_error_result() {
    let grep = |input: Value| calls("Grep", input);
    let script = replies(&[
        grep(json!({ "pattern": "fn \\w+", "glob": "*.rs", "output_mode": "content", "-A": 1 })),
        grep(json!({ "pattern": "fn (" })),
        says("One function."),
    ]);
    let app = TestApp::start(script).await;
    app.write_file("a.rs", "// first\nfn main() {\n}\n");
    app.write_file("a.md", "fn main\n");
    app.write_file("binary.rs", "fn binary() \0\n");
    let session = app.session().await;
    assert_eq!(session.ask("Find the functions").await["output_text"], "One function.");
    assert_eq!(result(&session, 1).await, (false, "a.rs:2:fn main() {\na.rs-3-}\n".to_owned()));
    let (is_error, text) = result(&session, 2).await;
    assert!(is_error, "{text}");
    let start = "<tool_use_error>the pattern is not a regular expression: ";
    assert!(text.starts_with(start) && text.ends_with("</tool_use_error>"), "{text}");
}
