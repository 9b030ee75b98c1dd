//! Deletions that take long, or of which nobody hears the end: all of it goes, and nobody else is
//! kept waiting.

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

/// A service whose sessions write a file in a folder of their own.
fn writes() -> (Value, Setup) {
    let writes = calls("Write", json!({ "file_path": "a/b.txt", "content": "mine" }));
    let setup = Setup { own_folders: true, ..Setup::default() };
    (replies(&[writes, says("Written.")]), setup)
}

async fn writing(app: &TestApp) -> Session<'_> {
    let session = app.session_with(json!({ "tools": ["Write"] })).await;
    session.ask(&format!("Write it for {}.", session.id)).await;
    assert!(folder(&session).exists());
    session
}

fn folder(session: &Session<'_>) -> PathBuf {
    session.app.folder.path().join("workspaces").join(&session.id)
}

/// Notes of folders that may have to go.
fn notes(app: &TestApp) -> usize {
    std::fs::read_dir(app.folder.path().join("workspaces/.leaving")).unwrap().count()
}

/// Makes a statement or a commit take so many seconds.
async fn slow_down(pool: &PgPool, seconds: u32, trigger: &str) {
    let function = format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$"
    );
    for statement in [function, format!("CREATE {trigger} EXECUTE FUNCTION slow()")] {
        sqlx::query(AssertSqlSafe(statement)).execute(pool).await.unwrap();
    }
}

/// Whether the service is deleting.
async fn is_deleting(pool: &PgPool) -> bool {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM pg_stat_activity
                        WHERE datname = current_database() AND wait_event = 'PgSleep')",
    )
    .fetch_one(pool)
    .await
    .unwrap()
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(40);
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_takes_long_is_in_nobodys_way_and_outlives_its_client() {
    let (script, setup) = writes();
    let app = TestApp::start_with(script, setup).await;
    let pool = app.database.pool(2);
    let budget = Budget { tokens: Some(1_000_000), cost: None };
    set(&mut pool.acquire().await.unwrap(), TenantId::DEFAULT, Period::Total, budget)
        .await
        .unwrap();
    let (gone, other) = (writing(&app).await, writing(&app).await);
    // Longer than a request without a body may take, and than a statement may elsewhere.
    slow_down(&pool, 16, "TRIGGER slow BEFORE DELETE ON events FOR EACH STATEMENT").await;

    let mut client = TcpStream::connect(app.address).await.unwrap();
    let request = format!("DELETE {} HTTP/1.1\r\nhost: x\r\n\r\n", gone.path(""));
    client.write_all(request.as_bytes()).await.unwrap();
    until("it does not begin", || is_deleting(&pool)).await;
    drop(client);
    // Of the same owner, whose budgets every request to the model needs.
    assert_eq!(other.ask("And again?").await["output_text"], "Written.");
    assert!(is_deleting(&pool).await, "who has a budget had to wait");

    until("it is not deleted", async || {
        tables_with(&pool, &[gone.uuid()]).await.is_empty() && !folder(&gone).exists()
    })
    .await;
    until("the note stays", async || notes(&app) == 0).await;
    assert!(folder(&other).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_whose_commit_is_not_answered_is_found_to_be_done() {
    let (database, folder_of_app) = (database().await, TempDir::new().unwrap());
    let proxy = Proxy::before(&database.options()).await;
    let (script, setup) = writes();
    let setup = Setup { database: Some(proxy.options(&database.options())), ..setup };
    let app = TestApp::on(script, setup, database, folder_of_app).await;
    let pool = app.database.pool(2);
    let session = writing(&app).await;
    let at_commit = "CONSTRAINT TRIGGER slow AFTER DELETE ON sessions
                     DEFERRABLE INITIALLY DEFERRED FOR EACH ROW";
    slow_down(&pool, 2, at_commit).await;

    let deletion = app.client.delete(app.url(&session.path(""))).send();
    let loss = async {
        until("it does not commit", || is_deleting(&pool)).await;
        proxy.drop_open_connections();
    };
    let (response, ()) = tokio::join!(deletion, loss);
    assert_eq!(response.unwrap().status(), 204);
    assert!(!folder(&session).exists());
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_session_and_a_large_tree_go_whole() {
    let (script, setup) = writes();
    let app = TestApp::start_with(script, setup).await;
    let pool = app.database.pool(1);
    let long = app.session().await;
    fill_with_events(&app.database, &long.id, 20_000).await;
    let root = writing(&app).await;
    // Of each three, with files.
    let mut tree = vec![root.id.clone()];
    for n in 0..9 {
        let source = app.existing_session(&tree[n / 3]);
        let fork = app.post(&source.path("/forks")).send().await.unwrap();
        assert_eq!(fork.status(), 201);
        tree.push(fork.json::<Value>().await.unwrap()["id"].as_str().unwrap().to_owned());
    }
    until("a note of a fork stays", async || notes(&app) == 0).await;
    let tree: Vec<Session<'_>> = tree.iter().map(|id| app.existing_session(id)).collect();
    assert!(tree.iter().all(|session| folder(session).exists()));
    for (session, query) in [(&long, ""), (&tree[0], "?forks=delete")] {
        let deletion = app.client.delete(app.url(&session.path(query))).send().await.unwrap();
        assert_eq!(deletion.status(), 204);
    }
    let ids: Vec<_> = tree.iter().chain([&long]).map(Session::uuid).collect();
    assert_eq!(tables_with(&pool, &ids).await, Vec::<String>::new());
    until("folders stay", async || {
        notes(&app) == 0 && tree.iter().all(|session| !folder(session).exists())
    })
    .await;
}
