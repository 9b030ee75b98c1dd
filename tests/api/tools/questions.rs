//! Typical questions of users, from the question to the calls and the answer.

use serde_json::{Value, json};

use crate::support::{Session, TestApp, calls, replies, says};

/// The content of `src/main.rs`, which the questions are about.
const MAIN: &str = "//! A greeter.\n\nfn main() {\n    println!(\"hello\");\n}\n";

/// Starts a service whose workspace has a small project.
async fn project(script: Value) -> TestApp {
    let app = TestApp::start(script).await;
    std::fs::create_dir(app.folder.path().join("src")).unwrap();
    app.write_file("src/main.rs", MAIN);
    app.write_file("src/notes.md", "# Notes\n");
    app
}

/// The name of each called tool in order, and whether its call failed.
async fn calls_made(session: &Session<'_>) -> Vec<(String, bool)> {
    let events = session.events().await;
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let is_error = |id: &Value| {
        let result = of("agent.tool_result").find(|result| result["tool_use_id"] == *id);
        result.unwrap()["is_error"] == true
    };
    let call = |event: &Value| (event["name"].as_str().unwrap().to_owned(), is_error(&event["id"]));
    of("agent.tool_use").map(call).collect()
}

fn succeeded(name: &str) -> (String, bool) {
    (name.to_owned(), false)
}

fn failed(name: &str) -> (String, bool) {
    (name.to_owned(), true)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_model_reads_a_file_and_answers_about_it() {
    let app = project(json!({ "otherwise": "demo" })).await;
    for question in [
        "Please read src/main.rs and explain what the code does",
        "Read src/main.rs and analyze the file structure",
        "Read src/main.rs and identify potential security issues",
    ] {
        let session = app.session().await;
        let run = session.ask(question).await;
        let answer = run["output_text"].as_str().unwrap();
        assert_eq!(run["status"], "completed", "{question}");
        assert!(answer.contains("src/main.rs") && !answer.contains(MAIN), "{question}: {answer}");
        assert_eq!(calls_made(&session).await, [succeeded("read_file")], "{question}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_model_lists_a_folder_and_answers_about_it() {
    let app = project(json!({ "otherwise": "demo" })).await;
    let session = app.session().await;
    let question = "List the files in src/ and tell me about the project organization";
    let run = session.ask(question).await;
    let answer = run["output_text"].as_str().unwrap();
    assert!(answer.contains("src") && !answer.contains("main.rs\nnotes.md\n"), "{answer}");
    assert_eq!(calls_made(&session).await, [succeeded("list_files")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_explains_why_a_file_cannot_be_read() {
    let app = project(json!({ "otherwise": "demo" })).await;
    let session = app.session().await;
    let run = session.ask("Read src/nowhere.rs and explain it").await;
    assert_eq!(run["status"], "completed");
    let answer = run["output_text"].as_str().unwrap();
    assert!(answer.contains("there is no such file or folder"), "{answer}");
    assert_eq!(calls_made(&session).await, [failed("read_file")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_round_uses_the_result_of_the_first() {
    let script = replies(&[
        calls("Glob", json!({ "pattern": "src/*.rs" })),
        calls("read_file", json!({ "path": "src/main.rs" })),
        says("One file, a greeter."),
    ]);
    let app = project(script).await;
    let session = app.session().await;
    let run = session.ask("What do the Rust files do?").await;
    let fields = json!([run["output_text"], run["model_requests"], run["limited"]]);
    assert_eq!(fields, json!(["One file, a greeter.", 3, false]));
    assert_eq!(calls_made(&session).await, [succeeded("Glob"), succeeded("read_file")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_round_of_tools_takes_two_model_requests() {
    let script = replies(&[calls("list_files", json!({ "path": "src" })), says("Two files.")]);
    let app = project(script).await;
    let session = app.session().await;
    let run = session.ask("How many files are there?").await;
    let fields = json!([run["output_text"], run["model_requests"]]);
    assert_eq!(fields, json!(["Two files.", 2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_needs_no_tool_takes_one_model_request() {
    let app = project(replies(&[says("Blue.")])).await;
    let session = app.session().await;
    let run = session.ask("Which colour is the sky?").await;
    assert_eq!(json!([run["output_text"], run["model_requests"]]), json!(["Blue.", 1]));
    assert_eq!(calls_made(&session).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_model_still_answers_when_the_limit_of_rounds_is_reached() {
    let listing = calls("list_files", json!({}));
    let app = project(replies(&[listing.clone(), listing, says("That will do.")])).await;
    let session = app.session().await;
    let body = json!({ "content": "Go on listing", "limits": { "rounds": 2 } });
    let run = session.ask_with(body).await;
    let fields = json!([run["output_text"], run["limited"]]);
    assert_eq!(fields, json!(["That will do.", true]));
    assert_eq!(calls_made(&session).await, [succeeded("list_files"), succeeded("list_files")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_and_an_invalid_input_do_not_affect_the_other_calls() {
    let round = json!({ "content": [
        { "type": "tool_use", "name": "list_files", "input": { "path": "nowhere" } },
        { "type": "tool_use", "name": "read_file", "input": { "file": "src/main.rs" } },
        { "type": "tool_use", "name": "read_file", "input": { "path": "src/main.rs" } },
    ]});
    let app = project(replies(&[round, says("One of three.")])).await;
    let session = app.session().await;
    assert_eq!(session.ask("Look around").await["output_text"], "One of three.");
    assert_eq!(
        calls_made(&session).await,
        [failed("list_files"), failed("read_file"), succeeded("read_file")]
    );
}
