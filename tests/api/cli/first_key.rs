//! The first API key of a new database, and the secrets of files.

use std::fs;
use std::path::Path;

use crate::support::{Program, binary, client_with, data_dir, database, outcome};

/// `serve` on all addresses, as in a container.
fn serve(more: &[&str]) -> tokio::process::Command {
    let args = ["serve", "--offline", "--bind", "0.0.0.0:0", "--auth", "keys"];
    binary(&[&args, more].concat())
}

/// The status of a request that creates a session.
async fn status_with(program: &Program, key: &str) -> u16 {
    let sessions = format!("{}/v1/sessions", program.url);
    client_with(None).post(&sessions).bearer_auth(key).send().await.unwrap().status().as_u16()
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A key as an operator makes it.
fn new_key() -> String {
    twostep::domain::api_key::ApiKey::generate().unwrap().reveal()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_on_all_addresses_needs_a_key_and_prints_the_first_one_once() {
    let folder = data_dir();
    let data = ["--data-dir", folder.path().to_str().unwrap()];
    // Without a key it does not start, but it has created the schema, so that a key can be created.
    let (status, stdout, stderr) = outcome(serve(&data)).await;
    assert_eq!((status, stdout.as_str()), (Some(1), ""), "{stderr}");
    for remedy in ["twostep keys create NAME", "TWOSTEP_BOOTSTRAP_KEY"] {
        assert!(stderr.contains(remedy), "{stderr}");
    }
    let (status, _, stderr) = outcome(binary(&[&["keys", "list"], &data[..]].concat())).await;
    assert_eq!((status, stderr.contains("no keys")), (Some(0), true), "{stderr}");

    let mut first = serve(&data);
    first.env("TWOSTEP_BOOTSTRAP_KEY", "print");
    let program = Program::serve(first).await;
    let line = program.greeting.lines().find_map(|line| line.trim().strip_prefix("first key "));
    let line = line.unwrap_or_else(|| panic!("{}", program.greeting));
    let key = line.trim().split(' ').next().unwrap().to_owned();
    assert_eq!(status_with(&program, &key).await, 201);
    assert_eq!(status_with(&program, &new_key()).await, 401);
    program.terminate().await;

    let mut second = serve(&data);
    second.env("TWOSTEP_BOOTSTRAP_KEY", "print");
    let program = Program::serve(second).await;
    assert!(!program.greeting.contains("tsk_"), "{}", program.greeting);
    assert_eq!(status_with(&program, &key).await, 201);
    program.terminate().await;

    // A revoked key is not replaced.
    let id = key.rsplit_once('_').unwrap().0;
    let (status, ..) = outcome(binary(&[&["keys", "revoke", id], &data[..]].concat())).await;
    assert_eq!(status, Some(0));
    let mut third = serve(&data);
    third.env("TWOSTEP_BOOTSTRAP_KEY", "print");
    let (status, stdout, stderr) = outcome(third).await;
    assert_eq!((status, stdout.as_str()), (Some(1), ""), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_key_and_the_database_url_can_be_in_files() {
    let (folder, database) = (tempfile::tempdir().unwrap(), database().await);
    let key = new_key();
    let key_file = write(folder.path(), "key", &format!("{key}\n"));
    let url_file = write(folder.path(), "url", &format!("{}\n", database.url()));
    let data = ["--data-dir", folder.path().to_str().unwrap()];
    let start = || {
        let mut command = serve(&data);
        command.env("TWOSTEP_BOOTSTRAP_KEY_FILE", &key_file).env("DATABASE_URL_FILE", &url_file);
        command
    };
    for _ in 0..2 {
        let program = Program::serve(start()).await;
        assert_eq!(status_with(&program, &key).await, 201);
        // The client reads its key from a file, too.
        let mut list = binary(&["sessions", "list"]);
        list.env("TWOSTEP_SERVER", &program.url).env("TWOSTEP_KEY_FILE", &key_file);
        let (status, stdout, stderr) = outcome(list).await;
        assert_eq!((status, stdout.contains("ses_")), (Some(0), true), "{stderr}");
        program.terminate().await;
    }
    // Another secret with the same id.
    let digit = if key.ends_with('0') { "1" } else { "0" };
    let other = format!("{}{digit}", &key[..key.len() - 1]);
    write(folder.path(), "key", &other);
    let (status, _, stderr) = outcome(start()).await;
    assert_eq!((status, stderr.contains("another secret")), (Some(1), true), "{stderr}");
    assert!(!stderr.contains(&other), "{stderr}");
    write(folder.path(), "key", "sesame");
    let (status, _, stderr) = outcome(start()).await;
    assert_eq!((status, stderr.contains("nor a key: tsk_")), (Some(1), true), "{stderr}");
    assert!(!stderr.contains("sesame"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_folder_that_cannot_be_written_prevents_the_start() {
    let (folder, database) = (tempfile::tempdir().unwrap(), database().await);
    // Root may write to every folder, but no file can be created in this one.
    std::os::unix::fs::symlink("/proc/self/fdinfo", folder.path().join("workspaces")).unwrap();
    let data = folder.path().to_str().unwrap();
    let mut command = binary(&["serve", "--offline", "--bind", "127.0.0.1:0", "--data-dir", data]);
    command.env("DATABASE_URL", database.url());
    let (status, _, stderr) = outcome(command).await;
    assert_eq!(status, Some(1), "{stderr}");
    for expected in ["/workspaces cannot be written", "chown", "--session-workspaces"] {
        assert!(stderr.contains(expected), "{stderr}");
    }
}
