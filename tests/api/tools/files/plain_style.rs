//! The plain file tools: `read_file`, `write_file` and `list_files`.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;
use tempfile::TempDir;

use super::{results, run, script, service, success};
use crate::support::{Setup, TestApp};

const OUTSIDE: &str = "it is outside of the workspace, or not allowed";

#[tokio::test(flavor = "multi_thread")]
async fn the_content_of_a_file_is_sent_to_the_model_and_not_to_the_user() {
    let mut script = script(&[("read_file", json!({ "path": "plan.txt" }))]);
    script["conversations"][0]["replies"][1]["content"][0]["text"] = json!("You plan a trip.");
    let app = TestApp::start(script).await;
    app.write_file("plan.txt", "secret itinerary: Oslo");
    let session = app.session().await;
    assert_eq!(session.ask("What do I plan?").await["output_text"], "You plan a trip.");
    assert_eq!(results(&session).await, [success("secret itinerary: Oslo")]);
    let events: Vec<_> = session.events().await;
    let messages = events.iter().filter(|event| event["type"] == "agent.message");
    for message in messages {
        assert!(!message.to_string().contains("itinerary"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_outside_of_the_workspace_are_neither_read_nor_written_nor_listed() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), "canary").unwrap();
    let secret = outside.path().join("secret").to_str().unwrap().to_owned();
    let app = service(
        &[
            ("read_file", json!({ "path": secret })),
            ("read_file", json!({ "path": "link/secret" })),
            ("write_file", json!({ "path": secret, "content": "x" })),
            ("write_file", json!({ "path": "new.txt", "content": "x" })),
            ("list_files", json!({ "path": "link" })),
            ("list_files", json!({ "path": "." })),
        ],
        Setup::default(),
    )
    .await;
    symlink(outside.path(), app.folder.path().join("link")).unwrap();
    let refused = |path: &str| (true, format!("Error: {path}: {OUTSIDE}"));
    assert_eq!(
        run(&app).await,
        [
            refused(&secret),
            refused("link/secret"),
            refused(&secret),
            success("Written successfully."),
            refused("link"),
            success("link\nnew.txt\n"),
        ]
    );
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"canary");
}
