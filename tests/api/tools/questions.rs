//! The kinds of questions that people ask, one test each, and the answers that they may expect.

use serde_json::{Value, json};

use crate::support::{Session, TestApp, calls, replies, says};

/// The file that questions are about.
const MAIN: &str = "//! A greeter.\n\nfn main() {\n    println!(\"hello\");\n}\n";

/// A service whose model is the demonstration, and which has a small project.
async fn project(script: Value) -> TestApp {
    let app = TestApp::start(script).await;
    std::fs::create_dir(app.folder.path().join("src")).unwrap();
    app.write_file("src/main.rs", MAIN);
    app.write_file("src/notes.md", "# Notes\n");
    app
}

/// The tools that were called, in their order, and whether each call failed.
async fn called(session: &Session<'_>) -> Vec<(String, bool)> {
    let events = session.events().await;
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let failed = |id: &Value| {
        let result = of("agent.tool_result").find(|result| result["tool_use_id"] == *id);
        result.unwrap()["is_error"] == true
    };
    let call = |event: &Value| (event["name"].as_str().unwrap().to_owned(), failed(&event["id"]));
    of("agent.tool_use").map(call).collect()
}

fn well(name: &str) -> (String, bool) {
    (name.to_owned(), false)
}

fn ill(name: &str) -> (String, bool) {
    (name.to_owned(), true)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_read_and_interpreted_whatever_is_asked_of_it() {
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
        assert_eq!(called(&session).await, [well("read_file")], "{question}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_listed_and_told_of() {
    let app = project(json!({ "otherwise": "demo" })).await;
    let session = app.session().await;
    let question = "List the files in src/ and tell me about the project organization";
    let run = session.ask(question).await;
    let answer = run["output_text"].as_str().unwrap();
    assert!(answer.contains("src") && !answer.contains("main.rs\nnotes.md\n"), "{answer}");
    assert_eq!(called(&session).await, [well("list_files")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_explained() {
    let app = project(json!({ "otherwise": "demo" })).await;
    let session = app.session().await;
    let run = session.ask("Read src/nowhere.rs and explain it").await;
    assert_eq!(run["status"], "completed");
    let answer = run["output_text"].as_str().unwrap();
    assert!(answer.contains("there is no such file or folder"), "{answer}");
    assert_eq!(called(&session).await, [ill("read_file")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_follow_each_other_where_one_needs_what_another_found() {
    let script = replies(&[
        calls("Glob", json!({ "pattern": "src/*.rs" })),
        calls("read_file", json!({ "path": "src/main.rs" })),
        says("One file, a greeter."),
    ]);
    let app = project(script).await;
    let session = app.session().await;
    let run = session.ask("What do the Rust files do?").await;
    let told = json!([run["output_text"], run["model_requests"], run["limited"]]);
    assert_eq!(told, json!(["One file, a greeter.", 3, false]));
    assert_eq!(called(&session).await, [well("Glob"), well("read_file")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_round_of_tools_is_enough_where_one_answers() {
    let script = replies(&[calls("list_files", json!({ "path": "src" })), says("Two files.")]);
    let app = project(script).await;
    let session = app.session().await;
    let run = session.ask("How many files are there?").await;
    let told = json!([run["output_text"], run["model_requests"]]);
    assert_eq!(told, json!(["Two files.", 2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_needs_no_tool_costs_one_request() {
    let app = project(replies(&[says("Blue.")])).await;
    let session = app.session().await;
    let run = session.ask("Which colour has the sky?").await;
    assert_eq!(json!([run["output_text"], run["model_requests"]]), json!(["Blue.", 1]));
    assert_eq!(called(&session).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn rounds_end_at_their_limit_and_the_model_still_answers() {
    let listing = calls("list_files", json!({}));
    let app = project(replies(&[listing.clone(), listing, says("That will do.")])).await;
    let session = app.session().await;
    let body = json!({ "content": "Go on listing", "limits": { "rounds": 2 } });
    let run = session.ask_with(body).await;
    let told = json!([run["output_text"], run["limited"]]);
    assert_eq!(told, json!(["That will do.", true]));
    assert_eq!(called(&session).await, [well("list_files"), well("list_files")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_and_inputs_that_mean_nothing_leave_the_rest_as_it_is() {
    let asks = json!({ "content": [
        { "type": "tool_use", "name": "list_files", "input": { "path": "nowhere" } },
        { "type": "tool_use", "name": "read_file", "input": { "file": "src/main.rs" } },
        { "type": "tool_use", "name": "read_file", "input": { "path": "src/main.rs" } },
    ]});
    let app = project(replies(&[asks, says("One of three.")])).await;
    let session = app.session().await;
    assert_eq!(session.ask("Look around").await["output_text"], "One of three.");
    assert_eq!(called(&session).await, [ill("list_files"), ill("read_file"), well("read_file")]);
}
