//! `twostep verify`: its output, its exit status, and the databases that it can check.

use sqlx::Executor as _;

use super::script;
use crate::support::{Program, TestApp, binary, client_with, data_dir, outcome};

async fn command(args: &[&str]) -> (Option<i32>, String, String) {
    outcome(binary(&[&["verify"], args].concat())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_names_violations_and_exits_with_status_1() {
    let app = TestApp::start(script()).await;
    let (valid, broken) = (app.session().await, app.session().await);
    for session in [&valid, &broken] {
        session.ask("What time is it?").await;
    }
    let url = app.database.url();
    let (one, two) = (valid.events().await.len(), broken.events().await.len());
    let summary = format!("2 sessions checked (8 messages, 2 runs, 4 calls, {} events)", one + two);
    let clean = format!("{summary}: no problems found\n");
    assert_eq!(command(&["--database-url", &url]).await, (Some(0), clean, String::new()));

    let pool = app.database.pool(1);
    let corruption = "UPDATE sessions SET queued = 1 WHERE id = $1";
    sqlx::query(corruption).bind(broken.uuid()).execute(&pool).await.unwrap();
    let finding = format!(
        "counters_agree: queued runs: the session has 1, its rows have 0 ({})\n",
        broken.id
    );
    let all = format!("{finding}{summary}: 1 finding in 1 session\n");
    assert_eq!(command(&["--database-url", &url]).await, (Some(1), all, String::new()));
    for (session, status) in [(&valid, 0), (&broken, 1)] {
        let only = command(&["--database-url", &url, "--session", &session.id]).await;
        assert_eq!(only.0, Some(status), "{only:?}");
        assert!(only.1.contains("1 session checked"), "{only:?}");
    }
    // The test has violated an invariant.
    app.stop_unchecked().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_says_why_it_cannot_check() {
    let app = TestApp::start(script()).await;
    let url = app.database.url();
    let unknown_id = "ses_00000000000070008000000000000000";
    let unknown = command(&["--database-url", &url, "--session", unknown_id]).await;
    let sentence = format!("twostep: session {unknown_id} does not exist\n");
    assert_eq!(unknown, (Some(2), String::new(), sentence));
    let usage = command(&["--database-url", &url, "--session", "nonsense"]).await;
    assert_eq!(usage.0, Some(2));

    let pool = app.database.pool(1);
    let mut versions: Vec<i64> = twostep::store::MIGRATIONS.iter().map(|one| one.version).collect();
    versions.sort_unstable();
    let (newest, before) = (versions[versions.len() - 1], versions[versions.len() - 2]);
    for (statement, expected) in [
        (
            "DELETE FROM _sqlx_migrations
             WHERE version = (SELECT max(version) FROM _sqlx_migrations)",
            format!(
                "the database schema has version {before}, this program needs {newest}; run \
                 `twostep migrate`"
            ),
        ),
        (
            "INSERT INTO _sqlx_migrations SELECT 9999, 'later', now(), true, '', 0;
             UPDATE schema_compatibility SET oldest_program = 9999",
            format!(
                "the database schema has version 9999 and requires a program that knows migration \
                 9999, this program knows migrations up to {newest}; start the program version that \
                 migrated it, or restore a backup from before the migration"
            ),
        ),
        (
            "DROP TABLE _sqlx_migrations",
            "the database has no schema; `twostep migrate` creates it".to_owned(),
        ),
    ] {
        sqlx::raw_sql(statement).execute(&pool).await.unwrap();
        let refused = command(&["--database-url", &url]).await;
        assert_eq!(refused, (Some(2), String::new(), format!("twostep: {expected}\n")));
    }
    // The final check refuses a database without a schema.
    app.stop_unchecked().await;

    let folder = data_dir();
    let name = folder.path().to_str().unwrap();
    let empty = command(&["--data-dir", name]).await;
    let sentence = format!("twostep: there is no database in {name}/postgres\n");
    assert_eq!(empty, (Some(2), String::new(), sentence));
    assert!(!folder.path().join("postgres").exists(), "the command created files");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_database_is_verified_with_its_service_and_without() {
    let folder = data_dir();
    let name = folder.path().to_str().unwrap();
    let serve = ["serve", "--offline", "--bind", "127.0.0.1:0", "--data-dir", name];
    let service = Program::serve(binary(&serve)).await;
    let client = client_with(None);
    let created = client.post(format!("{}/v1/sessions", service.url)).send().await.unwrap();
    assert!(created.status().is_success());
    let summary = "1 session checked (0 messages, 0 runs, 0 calls, 0 events): no problems found\n";
    let expected = (Some(0), summary.to_owned(), String::new());
    assert_eq!(command(&["--data-dir", name]).await, expected);
    let ready = client.get(format!("{}/readyz", service.url)).send().await.unwrap();
    assert!(ready.status().is_success(), "the service was stopped");
    assert_eq!(service.terminate().await.0.code(), Some(0));
    assert_eq!(command(&["--data-dir", name]).await, expected);
    assert!(
        !folder.path().join("postgres/pg/postmaster.pid").exists(),
        "the server is still running"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_finds_the_rows_of_a_session_that_does_not_exist() {
    let app = TestApp::start(script()).await;
    let (valid, gone) = (app.session().await, app.session().await);
    for session in [&valid, &gone] {
        session.ask("What time is it?").await;
    }
    // Triggers are off, so the rows of the session remain.
    let mut conn = app.database.pool(1).acquire().await.unwrap();
    conn.execute("SET session_replication_role = replica").await.unwrap();
    let delete = sqlx::query("DELETE FROM sessions WHERE id = $1").bind(gone.uuid());
    delete.execute(&mut *conn).await.unwrap();
    let (status, stdout, errors) = command(&["--database-url", &app.database.url()]).await;
    assert_eq!((status, &*errors), (Some(1), ""));
    let finding = format!(
        "session_exists: the session does not exist, but has rows in runs, messages, tool_calls, \
         events, requests ({})\n",
        gone.id
    );
    assert!(stdout.starts_with(&finding), "{stdout}");
    assert!(stdout.ends_with("1 finding in 1 session\n"), "{stdout}");
    // The test has violated an invariant.
    app.stop_unchecked().await;
}
