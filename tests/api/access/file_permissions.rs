//! The files of the service: no other user of the machine can read them.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Program, Setup, TestApp, binary, calls, client_with, replies, says};

/// All files and folders under a folder, with their permissions.
fn modes(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        // A file of the database can be removed meanwhile.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        found.push((path.clone(), metadata.mode() & 0o7777));
        if metadata.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            open.extend(entries.map(|entry| entry.path()));
        }
    }
    found
}

/// Asserts that other users can neither list nor read anything. Those of a data folder of root can
/// pass through it, as the user of the database must.
fn assert_private(data: &Path) {
    let passages = [data.to_owned(), data.join("postgres")];
    for (path, mode) in modes(data) {
        let is_passage = geteuid().is_root() && passages.contains(&path);
        let others = if is_passage { 0o066 } else { 0o077 };
        assert_eq!(mode & others, 0, "{} has the mode {mode:o}", path.display());
    }
}

async fn start(data: &Path, workspace: Option<&Path>) -> Program {
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0", "--data-dir"]);
    command.arg(data);
    if let Some(workspace) = workspace {
        command.arg("--shared-workspace").arg(workspace);
    }
    Program::serve(command).await
}

/// A run that writes a file and stores a result.
async fn use_service(program: &Program) {
    let client = client_with(None);
    let session = client.post(format!("{}/v1/sessions", program.url)).send().await.unwrap();
    let session: serde_json::Value = session.json().await.unwrap();
    let session = session["id"].as_str().unwrap();
    let content = "Write hello to notes.txt and then read notes.txt";
    let post = client.post(format!("{}/v1/sessions/{session}/messages", program.url));
    let post = post.header("prefer", "wait=60").json(&json!({ "content": content }));
    assert_eq!(post.send().await.unwrap().status(), 200);
    let fork = client.post(format!("{}/v1/sessions/{session}/forks", program.url));
    assert_eq!(fork.json(&json!({})).send().await.unwrap().status(), 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_of_the_data_folder_belongs_to_the_service_alone_also_after_an_upgrade() {
    let outer = TempDir::new_in("/tmp").unwrap();
    fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let data = outer.path().join("data");
    let program = start(&data, None).await;
    use_service(&program).await;
    assert!(modes(&data).iter().any(|(path, _)| path.ends_with("notes.txt")));
    assert_private(&data);
    program.terminate().await;

    // The folders that earlier versions created.
    let workspaces = fs::read_dir(data.join("workspaces")).unwrap();
    let sessions = workspaces.map(|entry| entry.unwrap().path());
    let folders = ["", "state", "workspaces"].map(|name| data.join(name));
    for folder in folders.into_iter().chain(sessions) {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for file in ["postgres/lock", "state/worker-0"] {
        fs::set_permissions(data.join(file), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let program = start(&data, None).await;
    assert_private(&data);
    program.terminate().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_in_a_shared_workspace_have_the_permissions_that_its_owner_chose() {
    let folder = TempDir::new_in("/tmp").unwrap();
    let app = TestApp::on(
        replies(&[
            calls("write_file", json!({ "path": "new/notes.txt", "content": "hello" })),
            calls("write_file", json!({ "path": "old.txt", "content": "hello" })),
            says("Done."),
        ]),
        Setup::default(),
        crate::support::database().await,
        folder,
    )
    .await;
    app.write_file("old.txt", "");
    let path = |name: &str| app.folder.path().join(name);
    fs::set_permissions(app.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(path("old.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    // The umask of this process applies to a new file of the test.
    app.write_file("reference", "");
    fs::create_dir(path("folder")).unwrap();
    let mode = |name: &str| fs::metadata(path(name)).unwrap().mode() & 0o7777;
    app.session().await.ask("Write").await;
    assert_eq!(mode("new/notes.txt"), mode("reference"));
    assert_eq!(mode("new"), mode("folder"));
    assert_eq!(mode("old.txt"), 0o640);
    assert_eq!(mode("."), 0o755);
}
