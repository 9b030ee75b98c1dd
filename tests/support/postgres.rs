//! A database of its own for every test.
//!
//! The server is the one that `TEST_DATABASE_URL` names (`scripts/test` starts one for a whole
//! run), else a throwaway server of this process, which ends with it. On the server there is one
//! template with all migrations applied; a test's database is a copy of it, which takes some
//! milliseconds. Nothing here depends on the caller's runtime: every test has another one.

use std::env;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sha2::{Digest, Sha256};
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, PgPool};
use twostep::store::embedded::{Durability, EmbeddedPostgres, Options};

static MIGRATIONS: Migrator = sqlx::migrate!();

/// The server, and the template that its databases are copied from.
struct Server {
    admin: PgConnectOptions,
    template: String,
    /// The server of this process. A static is never dropped: its watchdog ends it.
    _own: Option<EmbeddedPostgres>,
}

/// A migrated database that nobody else uses. Dropped with this value.
#[derive(Debug)]
pub(crate) struct TestDatabase {
    name: String,
    options: PgConnectOptions,
}

/// Makes a database for one test.
pub(crate) async fn database() -> TestDatabase {
    static SERVER: OnceLock<Server> = OnceLock::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    // the first start blocks this test and those that wait for the same server
    let server = SERVER.get_or_init(|| apart(start));
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("test_{}_{number}_{}", std::process::id(), nanos());
    let clone = format!("CREATE DATABASE {name} TEMPLATE {} STRATEGY file_copy", server.template);
    execute(&server.admin, clone).await;
    TestDatabase { options: server.admin.clone().database(&name), name }
}

impl TestDatabase {
    /// For a program that takes `DATABASE_URL`.
    pub(crate) fn url(&self) -> String {
        self.options.to_url_lossy().to_string()
    }

    /// How to connect to it.
    pub(crate) fn options(&self) -> PgConnectOptions {
        self.options.clone()
    }

    /// A pool of at most `connections`, none of them open yet. It belongs to the current runtime.
    pub(crate) fn pool(&self, connections: u32) -> PgPool {
        PgPoolOptions::new().max_connections(connections).connect_lazy_with(self.options())
    }
}

impl Drop for TestDatabase {
    /// Best effort: what remains goes with the server.
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let admin = self.options.clone().database("postgres");
        let _ = std::panic::catch_unwind(|| apart(async || execute(&admin, drop).await));
    }
}

/// Runs `work` on a thread and a runtime of its own: the caller's runtime is busy with the test,
/// and gone after it.
fn apart<T: Send>(work: impl AsyncFnOnce() -> T + Send) -> T {
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
        None => Some(EmbeddedPostgres::start_blocking(&throwaway()).unwrap()),
    };
    let admin = own.as_ref().map_or_else(named, EmbeddedPostgres::connect_options);
    let mut admin = admin.database("postgres");
    if admin.to_url_lossy().password().is_none() {
        // Nobody asks for it, and nobody may see it: `scripts/test` looks for it in all logs.
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
        // short, for the socket, and open to the user that root hands the server to
        data_dir: PathBuf::from(format!("/tmp/twostep-test-{}-{}", std::process::id(), nanos())),
        bin_dir: env::var_os("PG_BIN_DIR").map(PathBuf::from),
        search_path: env::var_os("PATH"),
        durability: Durability::Throwaway,
    }
}

/// Makes the template unless it is there. Other processes may want the same at the same time, so
/// it is built under another name while an advisory lock is held.
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
    conn.close().await.unwrap(); // and with it the lock
}

/// Runs one statement on a connection of its own.
async fn execute(options: &PgConnectOptions, statement: String) {
    let mut conn = PgConnection::connect_with(options).await.unwrap();
    conn.execute(AssertSqlSafe(statement)).await.unwrap();
    conn.close().await.unwrap();
}

/// Names a state of the migrations, so that a server that outlives the run is used rightly.
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

/// Process numbers come again, on a server that outlives the run.
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
    async fn a_database_goes_with_its_value() {
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
