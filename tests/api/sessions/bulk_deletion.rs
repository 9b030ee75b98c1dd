//! Deletions that take long, or whose response is lost. They delete everything and do not block
//! other requests.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};
use twostep::domain::budget::Budget;
use twostep::domain::ids::TenantId;
use twostep::store::budgets::{Period, set};

use crate::support::{
    Proxy, Session, Setup, TestApp, calls, database, fill_with_events, replies, says, tables_with,
};

/// The script and setup of a service whose sessions write a file in a folder of their own.
fn script_and_setup() -> (Value, Setup) {
    let writes = calls("Write", json!({ "file_path": "a/b.txt", "content": "mine" }));
    let setup = Setup { own_folders: true, ..Setup::default() };
    (replies(&[writes, says("Written.")]), setup)
}

async fn session_with_file(app: &TestApp) -> Session<'_> {
    let session = app.session_with(json!({ "tools": ["Write"] })).await;
    session.ask(&format!("Write it for {}.", session.id)).await;
    assert!(folder(&session).exists());
    session
}

fn folder(session: &Session<'_>) -> PathBuf {
    session.app.folder.path().join("workspaces").join(&session.id)
}

/// The number of stored notes about folders to delete.
fn notes(app: &TestApp) -> usize {
    std::fs::read_dir(app.folder.path().join("workspaces/.leaving")).unwrap().count()
}

/// Adds a trigger that makes a statement or a commit take this number of seconds.
async fn slow_down(pool: &PgPool, seconds: u32, trigger: &str) {
    let function = format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$"
    );
    for statement in [function, format!("CREATE {trigger} EXECUTE FUNCTION slow()")] {
        sqlx::query(AssertSqlSafe(statement)).execute(pool).await.unwrap();
    }
}

/// Returns whether a deletion is in the slow trigger.
async fn is_deleting(pool: &PgPool) -> bool {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM pg_stat_activity
                        WHERE datname = current_database() AND wait_event = 'PgSleep')",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}

async fn wait_until(failure: &str, condition: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(40);
    while !condition().await {
        assert!(Instant::now() < deadline, "{failure}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_deletion_blocks_no_other_session_and_survives_a_disconnect_of_its_client() {
    let (script, setup) = script_and_setup();
    let app = TestApp::start_with(script, setup).await;
    let pool = app.database.pool(2);
    let budget = Budget { tokens: Some(1_000_000), cost: None };
    set(&mut pool.acquire().await.unwrap(), TenantId::DEFAULT, Period::Total, budget)
        .await
        .unwrap();
    let (deleted, other) = (session_with_file(&app).await, session_with_file(&app).await);
    // Longer than the time limits of requests without a body and of other statements.
    slow_down(&pool, 16, "TRIGGER slow BEFORE DELETE ON events FOR EACH STATEMENT").await;

    let mut client = TcpStream::connect(app.address).await.unwrap();
    let request = format!("DELETE {} HTTP/1.1\r\nhost: x\r\n\r\n", deleted.path(""));
    client.write_all(request.as_bytes()).await.unwrap();
    wait_until("the deletion does not start", || is_deleting(&pool)).await;
    drop(client);
    // Every request to the model needs the budget of the tenant, which owns both sessions.
    assert_eq!(other.ask("And again?").await["output_text"], "Written.");
    assert!(is_deleting(&pool).await, "the run waited for the deletion");

    wait_until("the session is not deleted", async || {
        tables_with(&pool, &[deleted.uuid()]).await.is_empty() && !folder(&deleted).exists()
    })
    .await;
    wait_until("the note is not deleted", async || notes(&app) == 0).await;
    assert!(folder(&other).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_whose_commit_gets_no_reply_is_detected_as_done() {
    let (database, folder_of_app) = (database().await, TempDir::new().unwrap());
    let proxy = Proxy::before(&database.options()).await;
    let (script, setup) = script_and_setup();
    let setup = Setup { database: Some(proxy.options(&database.options())), ..setup };
    let app = TestApp::on(script, setup, database, folder_of_app).await;
    let pool = app.database.pool(2);
    let session = session_with_file(&app).await;
    let at_commit = "CONSTRAINT TRIGGER slow AFTER DELETE ON sessions
                     DEFERRABLE INITIALLY DEFERRED FOR EACH ROW";
    slow_down(&pool, 2, at_commit).await;

    let deletion = app.client.delete(app.url(&session.path(""))).send();
    let disconnect = async {
        wait_until("the deletion does not commit", || is_deleting(&pool)).await;
        proxy.drop_open_connections();
    };
    let (response, ()) = tokio::join!(deletion, disconnect);
    assert_eq!(response.unwrap().status(), 204);
    assert!(!folder(&session).exists());
    app.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_session_and_a_large_tree_of_forks_are_deleted_completely() {
    let (script, setup) = script_and_setup();
    let app = TestApp::start_with(script, setup).await;
    let pool = app.database.pool(1);
    let long = app.session().await;
    fill_with_events(&app.database, &long.id, 20_000).await;
    let root = session_with_file(&app).await;
    // Three forks of each session, all with files.
    let mut tree = vec![root.id.clone()];
    for n in 0..9 {
        let source = app.existing_session(&tree[n / 3]);
        let fork = app.post(&source.path("/forks")).send().await.unwrap();
        assert_eq!(fork.status(), 201);
        tree.push(fork.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned());
    }
    wait_until("a note of a fork is not deleted", async || notes(&app) == 0).await;
    let tree: Vec<Session<'_>> = tree.iter().map(|id| app.existing_session(id)).collect();
    assert!(tree.iter().all(|session| folder(session).exists()));
    for (session, query) in [(&long, ""), (&tree[0], "?forks=delete")] {
        let deletion = app.client.delete(app.url(&session.path(query))).send().await.unwrap();
        assert_eq!(deletion.status(), 204);
    }
    let ids: Vec<_> = tree.iter().chain([&long]).map(Session::uuid).collect();
    assert_eq!(tables_with(&pool, &ids).await, Vec::<String>::new());
    wait_until("folders are not deleted", async || {
        notes(&app) == 0 && tree.iter().all(|session| !folder(session).exists())
    })
    .await;
}
