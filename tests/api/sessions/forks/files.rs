//! The workspace of a fork.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{create_fork, fork, send, wait_for_lock_waits};
use crate::support::{Session, Setup, TestApp, calls, problem, says};

/// Starts a service whose sessions have folders of their own.
async fn start(conversations: Value) -> TestApp {
    let script = json!({ "conversations": conversations, "otherwise": "refuse" });
    TestApp::start_with(script, Setup { own_folders: true, ..Setup::default() }).await
}

fn writes(content: &str) -> Value {
    calls("Write", json!({ "file_path": "a/b.txt", "content": content }))
}

fn folder(session: &Session<'_>) -> PathBuf {
    session.app.folder.path().join("workspaces").join(&session.id)
}

fn content(session: &Session<'_>) -> String {
    std::fs::read_to_string(folder(session).join("a/b.txt")).unwrap()
}

fn folders(app: &TestApp) -> usize {
    let entries = std::fs::read_dir(app.folder.path().join("workspaces")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().starts_with("ses_")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_gets_copies_of_the_current_files() {
    let app = start(json!([
        { "when": "Change", "replies": [writes("changed"), says("{{result.0}}")] },
        { "replies": [writes("mine"), says("Written.")] },
    ]))
    .await;
    let new = json!({ "tools": ["Write"] });
    let source = app.session_with(new).await;
    source.ask("Write").await;
    std::fs::write(folder(&source).join("by-hand.txt"), "later").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder(&source).join("link")).unwrap();

    let branch = fork(&source, &json!({})).await;
    assert_eq!((content(&branch), content(&source)), ("mine".to_owned(), "mine".to_owned()));
    let by_hand = std::fs::read_to_string(folder(&branch).join("by-hand.txt")).unwrap();
    assert_eq!(by_hand, "later");
    assert!(folder(&branch).join("link").symlink_metadata().is_err());
    // The model has written the file, so it counts as read in the fork too.
    let output = branch.ask("Change").await["output_text"].clone();
    assert!(!output.as_str().unwrap().contains("error"), "{output}");
    assert_eq!((content(&branch), content(&source)), ("changed".to_owned(), "mine".to_owned()));

    let without_files = fork(&source, &json!({ "files": false })).await;
    assert!(!folder(&without_files).exists());
    let run = without_files.ask("Write").await;
    assert_eq!(
        (&run["output_text"], content(&without_files)),
        (&json!("Written."), "mine".to_owned())
    );
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_the_source_read_after_the_fork_point_count_as_unread_in_the_fork() {
    let app = start(json!([
        { "when": "Change", "replies": [writes("changed"), says("{{result.0}}")] },
        { "when": "Write", "replies": [writes("mine"), says("Written.")] },
        { "replies": [says("Yes.")] },
    ]))
    .await;
    let source = app.session_with(json!({ "tools": ["Write"] })).await;
    source.ask("Hello").await;
    source.ask("Write").await;
    let seen_files = async |session: &Session<'_>| -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM seen_files WHERE session_id = $1")
            .bind(session.uuid())
            .fetch_one(&app.database.pool(1))
            .await
            .unwrap()
    };
    // The calls are message 4, their results message 5.
    for (body, expected) in [
        (json!({ "after": 2 }), 0),
        (json!({ "after": 4 }), 0),
        (json!({ "after": 5 }), 1),
        (json!({ "after": 5, "files": false }), 0),
    ] {
        let branch = fork(&source, &body).await;
        assert_eq!(seen_files(&branch).await, expected, "{body}");
    }
    let unread = fork(&source, &json!({ "after": 2 })).await;
    let output = unread.ask("Change").await["output_text"].clone();
    assert!(output.as_str().unwrap().contains("has not been read yet"), "{output}");
    assert_eq!(content(&unread), "mine");
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_workspace_is_not_copied() {
    let app = TestApp::start(json!({ "conversations": [
        { "replies": [calls("write_file", json!({ "path": "{{user}}", "content": "x" })),
                      says("Written.")] },
    ], "otherwise": "refuse" }))
    .await;
    let source = app.session().await;
    source.ask("one.txt").await;
    let branch = create_fork(&source, &json!({ "files": false })).await;
    assert_eq!(branch["workspace"], source.read().await["workspace"]);
    app.existing_session(branch["id"].as_str().unwrap()).ask("two.txt").await;
    assert!(app.folder.path().join("two.txt").exists());
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_session_whose_workspace_is_too_large_is_refused() {
    let app = start(json!([{ "replies": [writes("mine"), says("Written.")] }])).await;
    let source = app.session_with(json!({ "tools": ["Write"] })).await;
    source.ask("Write").await;
    let large = std::fs::File::create(folder(&source).join("large")).unwrap();
    large.set_len(256 * 1024 * 1024).unwrap();
    problem(send(&source, &json!({})).await, 422, "workspace_too_large").await;
    // A fork that is refused for another reason also leaves no files.
    large.set_len(0).unwrap();
    problem(send(&source, &json!({ "after": 99 })).await, 422, "validation_failed").await;
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(1);
    while folders(&app) > 1 {
        assert!(tokio::time::Instant::now() < deadline, "a folder of a refused fork still exists");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    large.set_len(256 * 1024 * 1024).unwrap();
    let list = app.get(&source.path("/forks")).send().await.unwrap();
    assert_eq!(list.json::<Value>().await.unwrap()["data"], json!([]));
    let without_files = fork(&source, &json!({ "files": false })).await;
    assert!(!folder(&without_files).exists());
    app.end_refused(&[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_no_messages_that_arrived_while_its_files_were_copied() {
    let app = start(json!([{ "replies": [writes("mine"), says("Written.")] }])).await;
    let source = app.session_with(json!({ "tools": ["Write"] })).await;
    source.ask("Write").await;
    let pool = app.database.pool(2);
    let mut step = pool.begin().await.unwrap();
    let grow = "UPDATE sessions SET last_message_seq = last_message_seq + $2 WHERE id = $1";
    let query = sqlx::query(grow).bind(source.uuid());
    query.bind(1).execute(&mut *step).await.unwrap();
    let commit = async {
        wait_for_lock_waits(&pool, 1).await;
        step.commit().await.unwrap();
    };
    let body = json!({});
    let (branch, ()) = tokio::join!(create_fork(&source, &body), commit);
    assert_eq!(branch["forked_from"], json!({ "session_id": source.id, "message_seq": 4 }));
    sqlx::query(grow).bind(source.uuid()).bind(-1).execute(&pool).await.unwrap();
    app.end_refused(&[]);
}
