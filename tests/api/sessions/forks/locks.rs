//! Sessions that a fork blocks while it is created.

use std::cell::Cell;

use serde_json::json;
use twostep::domain::ids::{SessionId, TenantId};
use twostep::store::forks::lock_source;

use super::{fork, wait_for_lock_waits};
use crate::support::{TestApp, calls, replies, says};

#[tokio::test(flavor = "multi_thread")]
async fn creating_a_fork_of_a_fork_blocks_only_its_source() {
    let app = TestApp::start(replies(&[calls("get_time", json!({})), says("Noon.")])).await;
    let root = app.session().await;
    root.ask("one").await;
    let branch = fork(&root, &json!({})).await;
    branch.ask("two").await;
    let source = fork(&branch, &json!({})).await;

    let mut conn = app.database.pool(1).acquire().await.unwrap();
    sqlx::query("BEGIN").execute(&mut *conn).await.unwrap();
    let id = SessionId::from(source.uuid());
    assert_eq!(lock_source(&mut conn, TenantId::DEFAULT, id).await.unwrap(), Some(8));
    for session in [&root, &branch] {
        assert_eq!(session.ask("three").await["output_text"], "Noon.");
    }
    let is_released = Cell::new(false);
    let post = async {
        let run = source.post(json!({ "content": "three" })).await;
        assert!(is_released.get(), "the source accepted a message while it was locked");
        run
    };
    let release = async {
        wait_for_lock_waits(&app.database.pool(1), 1).await;
        is_released.set(true);
        sqlx::query("ROLLBACK").execute(&mut *conn).await.unwrap();
    };
    let (run, ()) = tokio::join!(post, release);
    source.settled(&run).await;
    app.end_refused(&[]);
}
