//! One database per test.
//!
//! The server is that of `TEST_DATABASE_URL` (`scripts/test` starts one for a whole run), else a
//! throwaway server of this process. The server has one template database with all migrations; the
//! database of a test is a copy of it, which takes some milliseconds. This module does not use the
//! runtime of the caller, because each test has a runtime of its own.

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use private_postgres::{Durability, Options, PrivatePostgres};
use sha2::{Digest, Sha256};
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, PgPool};

static MIGRATIONS: Migrator = sqlx::migrate!();

/// The server, and the template of its databases.
struct Server {
    admin: PgConnectOptions,
    template: String,
    /// The server of this process. A static is never dropped: the watchdog stops the server.
    _own: Option<PrivatePostgres>,
}

/// A migrated database of one test. It is dropped with this value.
#[derive(Debug)]
pub(crate) struct TestDatabase {
    name: String,
    options: PgConnectOptions,
}

/// Creates a database for one test.
pub(crate) async fn database() -> TestDatabase {
    static SERVER: OnceLock<Server> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // The first call blocks its test, and all tests that need the same server.
    let server = SERVER.get_or_init(|| on_own_thread(start));
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("test_{}_{number}_{}", std::process::id(), nanos());
    let clone = format!("CREATE DATABASE {name} TEMPLATE {} STRATEGY file_copy", server.template);
    execute(&server.admin, clone).await;
    TestDatabase { options: server.admin.clone().database(&name), name }
}

impl TestDatabase {
    /// The value of `DATABASE_URL` for a program.
    pub(crate) fn url(&self) -> String {
        self.options.to_url_lossy().to_string()
    }

    /// The connection options.
    pub(crate) fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// A pool of at most `connections`, which opens them on demand on the current runtime.
    pub(crate) fn pool(&self, connections: u32) -> PgPool {
        PgPoolOptions::new().max_connections(connections).connect_lazy_with(self.options())
    }
}

impl Drop for TestDatabase {
    /// Best effort: a remaining database is removed with the server.
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let admin = self.options.clone().database("postgres");
        let _ = std::panic::catch_unwind(|| on_own_thread(async || execute(&admin, drop).await));
    }
}

/// Runs `work` on a thread and a runtime of its own, because the runtime of the caller is blocked by
/// the test.
fn on_own_thread<T: Send>(work: impl AsyncFnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(work())
        });
        thread.join().unwrap()
    })
}

async fn start() -> Server {
    let own = match env::var_os("TEST_DATABASE_URL") {
        Some(_) => None,
        None => Some(PrivatePostgres::start_blocking(&throwaway()).unwrap()),
    };
    let admin = own.as_ref().map_or_else(named, PrivatePostgres::connect_options);
    let mut admin = admin.database("postgres");
    if admin.to_url_lossy().password().is_none() {
        // The server ignores the password; `scripts/test` searches all logs for it.
        admin = admin.password("planted-database-password");
    }
    let template = format!("template_{}", fingerprint());
    create_template(&admin, &template).await;
    Server { admin, template, _own: own }
}

/// The server that `TEST_DATABASE_URL` names.
fn named() -> PgConnectOptions {
    let url = env::var_os("TEST_DATABASE_URL").unwrap_or_default();
    url.to_str().unwrap().parse().unwrap()
}

fn throwaway() -> Options {
    Options {
        // A short path, for the socket, which the unprivileged user of the server can enter.
        data_dir: parent().join(format!("twostep-test-{}-{}", std::process::id(), nanos())),
        bin_dir: env::var_os("PG_BIN_DIR").map(PathBuf::from),
        search_path: env::var_os("PATH"),
        durability: Durability::Throwaway,
    }
}

/// A file system in memory if it has 4 GB left: a database is created there in a third of the time.
fn parent() -> &'static Path {
    const NEEDED: u64 = 4 << 30;
    let memory = Path::new("/dev/shm");
    let is_large = rustix::fs::statvfs(memory).is_ok_and(|it| it.f_bavail * it.f_frsize >= NEEDED);
    if is_large { memory } else { Path::new("/tmp") }
}

/// Creates the template unless it exists. Several processes may do so at the same time, so it is
/// built under another name while an advisory lock is held.
async fn create_template(admin: &PgConnectOptions, template: &str) {
    let mut conn = PgConnection::connect_with(admin).await.unwrap();
    conn.execute("SELECT pg_advisory_lock(7461)").await.unwrap();
    let exists: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
            .bind(template)
            .fetch_one(&mut conn)
            .await
            .unwrap();
    if !exists {
        let building = format!("{template}_new");
        for statement in ["DROP DATABASE IF EXISTS", "CREATE DATABASE"] {
            execute(admin, format!("{statement} {building}")).await;
        }
        let mut new = PgConnection::connect_with(&admin.clone().database(&building)).await.unwrap();
        MIGRATIONS.run(&mut new).await.unwrap();
        new.close().await.unwrap();
        execute(admin, format!("ALTER DATABASE {building} RENAME TO {template}")).await;
    }
    conn.close().await.unwrap(); // releases the lock
}

/// Runs one statement on a connection of its own.
async fn execute(options: &PgConnectOptions, statement: String) {
    let mut conn = PgConnection::connect_with(options).await.unwrap();
    conn.execute(AssertSqlSafe(statement)).await.unwrap();
    conn.close().await.unwrap();
}

/// A hash of the migrations. A server may have templates of other versions from earlier runs.
fn fingerprint() -> String {
    let mut hash = Sha256::new();
    for migration in MIGRATIONS.iter() {
        hash.update(&migration.checksum);
    }
    let mut text = String::new();
    for byte in hash.finalize().iter().take(8) {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// The time, as part of a name: process ids repeat on a server that is used by several runs.
fn nanos() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos()
}

mod tests {
    use super::*;

    #[tokio::test]
    async fn every_test_has_a_database_of_its_own() {
        let (one, two) = tokio::join!(database(), database());
        one.pool(2).execute("CREATE TABLE only_here (id int)").await.unwrap();
        let mut other = PgConnection::connect(&two.url()).await.unwrap();
        let exists: bool = sqlx::query_scalar("SELECT to_regclass('only_here') IS NOT NULL")
            .fetch_one(&mut other)
            .await
            .unwrap();
        assert!(!exists);
        let migrated: bool =
            sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
                .fetch_one(&mut other)
                .await
                .unwrap();
        assert!(migrated);
    }

    #[tokio::test]
    async fn a_database_is_dropped_with_its_value() {
        let kept = database().await;
        let dropped = database().await;
        let name = dropped.name.clone();
        drop(dropped);
        let remains: bool =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)")
                .bind(name)
                .fetch_one(&kept.pool(1))
                .await
                .unwrap();
        assert!(!remains);
    }
}
