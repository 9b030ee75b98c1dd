//! The workspace of a session: a folder of its own, or a folder that the operator allows.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{read, results, service, success};
use crate::support::{Setup, problem};

#[tokio::test(flavor = "multi_thread")]
async fn a_session_works_in_the_folder_that_it_names() {
    let roots = TempDir::new().unwrap();
    let root = roots.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("project/sub")).unwrap();
    fs::write(root.join("project/sub/a"), "mine").unwrap();
    let setup = Setup { workspace_roots: vec![root.join("project")], ..Setup::default() };
    let app = service(&[read("a")], setup).await;
    let folder = root.join("project/sub").to_str().unwrap().to_owned();
    let session = app.session_with(json!({ "workspace": folder })).await;
    session.ask("Read a").await;
    assert_eq!(results(&session).await, [success("     1→mine")]);
    let shown: Value = app.get(&session.path("")).send().await.unwrap().json().await.unwrap();
    assert_eq!(shown["workspace"], folder);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_is_not_allowed_is_refused() {
    let roots = TempDir::new().unwrap();
    let root = roots.path().canonicalize().unwrap();
    fs::create_dir(root.join("project")).unwrap();
    fs::write(root.join("project/file"), "").unwrap();
    let setup = Setup { workspace_roots: vec![root.join("project")], ..Setup::default() };
    let app = service(&[], setup).await;
    for folder in ["/etc".to_owned(), "project".to_owned(), String::new()].into_iter().chain(
        ["", "project/..", "project/none", "project/file"]
            .map(|name| root.join(name).to_str().unwrap().to_owned()),
    ) {
        let body = json!({ "workspace": folder });
        let response = app.post("/v1/sessions").json(&body).send().await.unwrap();
        let problem = problem(response, 422, "validation_failed").await;
        let message = "is not a folder that the operator allows for sessions";
        assert_eq!(problem["errors"], json!([{ "pointer": "/workspace", "message": message }]));
    }
}
