//! Migrations of databases with data: they finish whatever their size, next to processes that read and
//! write, and one process at a time.

mod newer_schema;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, PgPool, SqlSafeStr as _};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use twostep::store::MIGRATIONS;
use twostep::store::schema::{Waits, apply_missing};

use crate::support::machine::HUNG;
use crate::support::{
    Setup, TestApp, TestDatabase, binary, data_dir, database, outcome, replies, says,
};

/// The released versions, and the newest migration of each. A release adds a line.
const RELEASED: [(&str, i64); 2] = [("0.1.0", 28), ("0.2.0", 28)];
/// The schema before the migrations that rewrite tables and index texts.
const BEFORE_TEXT_INDEX: i64 = 15;
const TEXT_INDEX: i64 = 16;

/// A database whose newest migration is this one, with data of this many sessions.
async fn database_at(version: i64, sessions: u32) -> TestDatabase {
    let database = database().await;
    let mut conn = PgConnection::connect_with(&database.options()).await.unwrap();
    conn.execute("DROP SCHEMA public CASCADE").await.unwrap();
    conn.execute("CREATE SCHEMA public").await.unwrap();
    MIGRATIONS.run_to(version, &mut conn).await.unwrap();
    let set = AssertSqlSafe(format!("SET test.sessions = {sessions}"));
    conn.execute(set).await.unwrap();
    conn.execute(include_str!("fill.sql")).await.unwrap();
    conn.close().await.unwrap();
    database
}

/// Sets a default for new connections to the database.
async fn set(database: &TestDatabase, setting: &str) {
    let name = database.options().get_database().unwrap().to_owned();
    let alter = AssertSqlSafe(format!("ALTER DATABASE {name} SET {setting}"));
    database.pool(1).execute(alter).await.unwrap();
}

/// A connection pool of the test, for which the timeout of the database does not hold.
fn without_timeout(database: &TestDatabase) -> PgPool {
    let options = database.options().options([("statement_timeout", "0")]);
    PgPoolOptions::new().max_connections(1).connect_lazy_with(options)
}

async fn migrate(database: &TestDatabase) -> (Option<i32>, String, String) {
    let mut command = binary(&["migrate"]);
    command.env("DATABASE_URL", database.url());
    outcome(command).await
}

fn newest() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap()
}

/// The time that a migration took.
async fn duration_of(version: i64, pool: &PgPool) -> Duration {
    let nanos = "SELECT execution_time FROM _sqlx_migrations WHERE version = $1";
    let nanos: i64 = sqlx::query_scalar(nanos).bind(version).fetch_one(pool).await.unwrap();
    Duration::from_nanos(nanos.try_into().unwrap())
}

/// Migrates the database with the program, and asks the service for what was stored before.
///
/// Returns the time of the migration that indexes texts.
async fn migrate_and_use(database: TestDatabase) -> Duration {
    let (status, stdout, errors) = migrate(&database).await;
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(stdout, format!("the schema is at version {}\n", newest()));
    assert!(errors.contains("migration applied"), "{errors}");
    let found = "SELECT session_id FROM events WHERE type = 'user.message' LIMIT 1";
    let old: uuid::Uuid =
        sqlx::query_scalar(found).fetch_one(&without_timeout(&database)).await.unwrap();
    let script = replies(&[says("Hello.")]);
    let app = TestApp::on(script, Setup::default(), database, TempDir::new().unwrap()).await;
    let events = app.get(&format!("/v1/sessions/ses_{}/events", old.simple()));
    let events: Value = events.send().await.unwrap().json().await.unwrap();
    assert_eq!(events["data"].as_array().map(Vec::len), Some(4), "{events}");
    assert_eq!(app.session().await.ask("Hello").await["output_text"], "Hello.");
    let took = duration_of(TEXT_INDEX, &without_timeout(&app.database)).await;
    // The rows of the test are not those of real runs.
    app.stop_unchecked().await;
    took
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_exceeds_the_statement_timeout_of_the_database_is_applied() {
    let database = database_at(BEFORE_TEXT_INDEX, 200).await;
    set(&database, "statement_timeout = '20ms'").await;
    let took = migrate_and_use(database).await;
    assert!(took > Duration::from_millis(20), "the timeout would not have been reached: {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_of_every_release_is_migrated() {
    for version in BTreeSet::from(RELEASED.map(|(_, version)| version)) {
        let database = database_at(version, 50).await;
        set(&database, "statement_timeout = '20ms'").await;
        // The service of the check has a timeout of its own.
        migrate_and_use(database).await;
    }
}

#[test]
fn every_release_of_the_changelog_has_a_schema_that_is_tested() {
    let changelog = Path::new(env!("CARGO_MANIFEST_DIR")).join("CHANGELOG.md");
    let changelog = fs::read_to_string(changelog).unwrap();
    let headings = changelog.lines().filter_map(|line| line.strip_prefix("## [")?.split_once(']'));
    let mut releases: Vec<&str> = headings.map(|(name, _)| name).collect();
    releases.retain(|name| *name != "Unreleased");
    releases.sort_unstable();
    assert_eq!(releases, RELEASED.map(|(name, _)| name));
}

/// `make` has no target for it: `scripts/test --test api -- --ignored --nocapture of_300_mb`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn databases_of_300_mb_are_migrated_from_every_release_and_from_the_oldest_schema() {
    let released = RELEASED.map(|(_, version)| version);
    for version in BTreeSet::from(released).into_iter().chain([BEFORE_TEXT_INDEX]) {
        let database = database_at(version, 8_000).await;
        let pool = database.pool(1);
        let size = "SELECT pg_database_size(current_database())";
        let size: i64 = sqlx::query_scalar(size).fetch_one(&pool).await.unwrap();
        let started = Instant::now();
        migrate_and_use(database).await;
        tracing::info!("from {version}: {} MB in {:?}", size / 1_000_000, started.elapsed());
        assert!(size > 300_000_000, "{size}");
    }
}

/// Waits until a migration waits for a lock, or no longer does.
async fn becomes_blocked(pool: &PgPool, is_blocked: bool) {
    let deadline = Instant::now() + HUNG;
    let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock')";
    while sqlx::query_scalar::<_, bool>(waiting).fetch_one(pool).await.unwrap() != is_blocked {
        assert!(Instant::now() < deadline, "the migration waits: {}", !is_blocked);
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_behind_a_reader_is_repeated_while_others_work_and_a_second_process_waits() {
    let database = database_at(BEFORE_TEXT_INDEX, 1).await;
    let (observer, url) = (database.pool(1), database.url());
    let mut reader = PgConnection::connect_with(&database.options()).await.unwrap();
    let mut reading = reader.begin().await.unwrap();
    reading.execute("SELECT FROM sessions").await.unwrap();
    let start = || {
        let mut command = binary(&["migrate"]);
        command.env("DATABASE_URL", &url);
        TaskTracker::new().spawn(outcome(command))
    };
    let first = start();
    becomes_blocked(&observer, true).await;
    let second = start();
    // Two tries take more than four seconds; a program that waits once gives up after five.
    for _ in 0..3 {
        becomes_blocked(&observer, false).await;
        // The service works between two tries.
        observer.execute("UPDATE sessions SET updated_at = now()").await.unwrap();
        becomes_blocked(&observer, true).await;
    }
    reading.rollback().await.unwrap();
    let (one, two) = (first.await.unwrap(), second.await.unwrap());
    let done = format!("the schema is at version {}\n", newest());
    for (status, stdout, errors) in [&one, &two] {
        assert_eq!((*status, stdout), (Some(0), &done), "{errors}");
    }
    assert!(one.2.contains("migration got no lock and is repeated"), "{}", one.2);
    assert!(two.2.contains("waiting for another process that migrates the schema"), "{}", two.2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_waits_in_a_migration_stops_at_a_signal() {
    let database = database_at(BEFORE_TEXT_INDEX, 1).await;
    let observer = database.pool(1);
    let mut reader = PgConnection::connect_with(&database.options()).await.unwrap();
    let mut reading = reader.begin().await.unwrap();
    reading.execute("SELECT FROM sessions").await.unwrap();
    let folder = data_dir();
    let name = folder.path().to_str().unwrap();
    let mut serve = binary(&["serve", "--offline", "--bind", "127.0.0.1:0", "--data-dir", name]);
    serve.env("DATABASE_URL", database.url()).stderr(Stdio::piped());
    let child = serve.spawn().unwrap();
    let pid = Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    becomes_blocked(&observer, true).await;
    kill_process(pid, Signal::TERM).unwrap();
    let output = timeout(HUNG, child.wait_with_output()).await.expect("it still waits").unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let sentence = "twostep: stopped before the database schema was up to date\n";
    assert!(errors.ends_with(sentence), "{errors}");
}

/// The migrations of the program and one more.
fn with_one_more(sql: &'static str, no_tx: bool) -> Migrator {
    let mut all: Vec<Migration> = MIGRATIONS.iter().cloned().collect();
    let name = Cow::Borrowed("of the test");
    all.push(Migration::new(9000, name, MigrationType::Simple, sql.into_sql_str(), no_tx));
    Migrator::with_migrations(all)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_that_gets_no_lock_in_the_whole_time_names_the_oldest_transaction() {
    let database = database().await;
    let mut reader = PgConnection::connect_with(&database.options()).await.unwrap();
    let mut reading = reader.begin().await.unwrap();
    reading.execute("SET application_name = 'a report'").await.unwrap();
    reading.execute("SELECT FROM sessions").await.unwrap();
    let migrations = with_one_more("ALTER TABLE sessions ADD COLUMN later text", false);
    let waits = Waits { lock: Duration::from_millis(20), longest: Duration::from_secs(1) };
    let refused = apply_missing(&database.pool(1), &migrations, waits).await.unwrap_err();
    let refused = refused.to_string();
    let expected = "the migration 9000 of the database schema got no lock within 1 s; the oldest other \
                    transaction is of a report, process ";
    assert!(refused.starts_with(expected), "{refused}");
    reading.rollback().await.unwrap();
    apply_missing(&database.pool(1), &migrations, waits).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_whose_concurrent_build_was_interrupted_is_built_again() {
    let database = database_at(newest(), 2).await;
    let pool = database.pool(1);
    let build =
        "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS sessions_by_model ON sessions (model)";
    pool.execute(build).await.unwrap_err();
    let is_valid =
        "SELECT indisvalid FROM pg_index WHERE indexrelid = 'sessions_by_model'::regclass";
    assert!(!sqlx::query_scalar::<_, bool>(is_valid).fetch_one(&pool).await.unwrap());
    pool.execute("UPDATE sessions SET model = id::text").await.unwrap();

    let migrations = with_one_more(build, true);
    // An old snapshot delays the build for longer than a try of another migration may wait.
    let mut reader = PgConnection::connect_with(&database.options()).await.unwrap();
    let mut snapshot = reader.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    snapshot.execute("SELECT FROM sessions").await.unwrap();
    let waits = Waits { lock: Duration::from_millis(20), ..Waits::default() };
    let applying = database.pool(1);
    let applying =
        TaskTracker::new().spawn(async move { apply_missing(&applying, &migrations, waits).await });
    becomes_blocked(&pool, true).await;
    let deadline = Instant::now() + waits.lock * 10;
    while Instant::now() < deadline {
        assert!(!applying.is_finished(), "the build does not wait for the snapshot");
        sleep(Duration::from_millis(10)).await;
    }
    snapshot.rollback().await.unwrap();
    applying.await.unwrap().unwrap();
    assert!(sqlx::query_scalar::<_, bool>(is_valid).fetch_one(&pool).await.unwrap());
}

/// The rules of CONTRIBUTING.md for migrations after the last one that blocked writers.
#[test]
fn new_migrations_build_indexes_of_existing_tables_without_blocking_writers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut checked = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let number: i64 = name.split('_').next().unwrap().parse().unwrap();
        if number <= 28 {
            continue;
        }
        checked += 1;
        let text = fs::read_to_string(&path).unwrap();
        let sql: String = text
            .lines()
            .map(|line| line.split_once("--").map_or(line, |(sql, _)| sql).to_owned() + "\n")
            .collect();
        let statements: Vec<&str> =
            sql.split(';').map(str::trim).filter(|it| !it.is_empty()).collect();
        for statement in &statements {
            let words: Vec<&str> = statement.split_whitespace().collect();
            let Some(at) = words.iter().position(|word| *word == "INDEX") else { continue };
            if words[0] != "CREATE" || words.get(at + 1) == Some(&"CONCURRENTLY") {
                continue;
            }
            let on = words.iter().position(|word| *word == "ON").unwrap();
            let table = words[on + 1].split('(').next().unwrap();
            let creates = format!("CREATE TABLE {table} ");
            assert!(
                sql.contains(&creates),
                "{name} builds an index of the existing table {table}: write CREATE INDEX \
                 CONCURRENTLY IF NOT EXISTS, alone in a file that begins with `-- no-transaction`"
            );
        }
        if sql.contains(" CONCURRENTLY ") {
            let is_alone = statements.len() == 1 && sql.contains("IF NOT EXISTS");
            assert!(
                is_alone && text.starts_with("-- no-transaction"),
                "{name} must begin with `-- no-transaction`, have one statement and IF NOT EXISTS"
            );
        }
    }
    assert!(checked > 0);
}
