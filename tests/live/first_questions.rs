//! Typical first questions.

use serde_json::json;

use crate::live_service::LiveService;

/// A program that can be explained and has a security flaw.
const MAIN: &str = r#"use std::process::Command;

fn main() {
    let name = std::env::args().nth(1).unwrap();
    let out = Command::new("sh").arg("-c").arg(format!("echo hello {name}")).output().unwrap();
    print!("{}", String::from_utf8_lossy(&out.stdout));
}
"#;

/// Questions, each with true if the answer needs a tool call to read files.
const QUESTIONS: [(&str, bool); 5] = [
    ("Please read src/main.rs and explain what the code does", true),
    ("Read src/main.rs and analyze the file structure", true),
    ("Read src/main.rs and identify potential security issues", true),
    ("List the files in src/ and tell me about the project organization", true),
    ("What is the capital of Norway?", false),
];

#[tokio::test]
#[ignore = "needs ANTHROPIC_API_KEY and costs money"]
async fn the_model_answers_what_people_ask_first() {
    let service = LiveService::start(&[]).await;
    std::fs::write(service.workspace_file("src/main.rs"), MAIN).unwrap();
    for (question, needs_files) in QUESTIONS {
        let run = service.session(json!({})).await.ask(question).await;
        assert_eq!(run["stop_reason"]["type"], "end_turn", "{run}");
        let requests = run["model_requests"].as_i64().unwrap();
        assert_eq!(requests >= 2, needs_files, "asked the model {requests} times: {run}");
    }
}
