//! Typical first questions to the real model. The test needs an API key and costs money, so it is
//! ignored by default:
//!
//! ```sh
//! ANTHROPIC_API_KEY=… cargo test --test live -- --ignored --nocapture
//! ```
//!
//! `ANTHROPIC_BASE_URL` and `TWOSTEP_MODEL` select another server and model. The test does not
//! assess the quality of an answer, only that there is one and that it used the files if needed.
#![cfg(test)]
#![expect(clippy::disallowed_methods, reason = "the environment selects the server and the key")]
#![expect(clippy::print_stdout, reason = "the answers are printed for the reader")]

#[path = "api/support/kept_output.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod kept_output;
#[path = "support/machine.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod machine;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "api/support/program.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod program;

use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};

use postgres::database;
use program::{Program, binary, data_dir};

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
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (database, folder) = (database().await, data_dir());
    let workspace = folder.path().join("project");
    std::fs::create_dir_all(workspace.join("src")).unwrap();
    std::fs::write(workspace.join("src/main.rs"), MAIN).unwrap();
    let mut command = binary(&["serve", "--bind", "127.0.0.1:0", "--shared-workspace"]);
    command.arg(&workspace).arg("--data-dir").arg(folder.path());
    command.env("DATABASE_URL", database.url());
    for name in ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "TWOSTEP_MODEL"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let service = Program::serve(command).await;
    for (question, needs_files) in QUESTIONS {
        let run = ask(&service.url, question).await;
        println!("> {question}\n{}\n", run["output_text"].as_str().unwrap());
        assert_eq!(run["status"], "completed", "{run}");
        assert_eq!(run["stop_reason"]["type"], "end_turn", "{run}");
        assert!(!run["output_text"].as_str().unwrap().trim().is_empty(), "{run}");
        let requests = run["model_requests"].as_i64().unwrap();
        assert_eq!(requests >= 2, needs_files, "asked the model {requests} times: {run}");
    }
}

/// Asks in a new session and waits for the answer.
async fn ask(url: &str, question: &str) -> Value {
    let client = Client::new();
    let post = |path: String| client.post(format!("{url}/v1{path}"));
    let session = post("/sessions".to_owned()).send().await.unwrap();
    let session: Value = session.error_for_status().unwrap().json().await.unwrap();
    let path = format!("/sessions/{}/messages", session["id"].as_str().unwrap());
    let message = post(path).header("prefer", "wait=120").json(&json!({ "content": question }));
    let answer = message.timeout(Duration::from_secs(150)).send().await.unwrap();
    answer.error_for_status().unwrap().json().await.unwrap()
}
