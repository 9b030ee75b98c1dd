//! The transcript of `docs/first-steps.md` is what the service prints.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::TestApp;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The frames of a stream without what differs from one run to the next.
fn normalised(stream: &str) -> Vec<String> {
    let mut frames: Vec<String> = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for frame in stream.split("\n\n").filter(|frame| !frame.trim().is_empty()) {
        let (head, data) = frame.split_once("data: ").unwrap();
        let mut data: Value = serde_json::from_str(data).unwrap();
        let text = data["delta"]["content"]["text"].as_str().map(str::to_owned);
        scrub(&mut data, &mut known);
        // How text is cut into deltas depends on the clock.
        if let Some(text) = text {
            data["delta"]["content"]["text"] = Value::Null;
            let key = format!("{head}{data} ");
            match frames.last_mut().filter(|last| last.starts_with(&key)) {
                Some(last) => last.push_str(&text),
                None => frames.push(format!("{key}{text}")),
            }
        } else {
            frames.push(format!("{head}{data}"));
        }
    }
    frames
}

/// Replaces ids by their order of appearance, times and durations by nothing.
fn scrub(value: &mut Value, known: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                if key == "created_at" || key == "duration_ms" {
                    *member = Value::Null;
                }
                scrub(member, known);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| scrub(item, known)),
        Value::String(text) if is_id(text) => {
            let place = known.iter().position(|id| id == text).unwrap_or_else(|| {
                known.push(text.clone());
                known.len() - 1
            });
            *text = format!("id {place}");
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_id(text: &str) -> bool {
    let prefixes = ["ses_", "run_", "msg_", "evt_", "toolu_"];
    prefixes.iter().any(|prefix| text.starts_with(prefix)) && !text.contains(' ')
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_transcript_is_what_the_service_prints() {
    let page = fs::read_to_string(root().join("docs/first-steps.md")).unwrap();
    let start = page.find("\nretry: 2000\n").expect("the page has a transcript") + 1;
    let end = start + page[start..].find("\n```").unwrap();
    let command = "Read rust-toolchain.toml and explain it";
    assert!(page[..start].contains(command));

    let app = TestApp::start(json!({ "otherwise": "demo" })).await;
    let toolchain = fs::read_to_string(root().join("rust-toolchain.toml")).unwrap();
    app.write_file("rust-toolchain.toml", &toolchain);
    let system = twostep::config::DEFAULT_SYSTEM;
    let tools = ["read_file", "write_file", "list_files", "get_time"];
    let settings = json!({ "system": system, "max_tokens": 8192, "tools": tools });
    let session = app.session_with(settings).await;
    let response = session
        .message(&json!({ "content": command }))
        .header("accept", "text/event-stream")
        .send()
        .await
        .unwrap();
    let printed = response.text().await.unwrap();
    let documented = &page[start..end];
    assert_eq!(normalised(&printed), normalised(documented));
}
