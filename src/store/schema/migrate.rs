//! Applies migrations to a database of any size while other processes use it.
//!
//! A migration may take as long as it needs, but waits only briefly for a lock: all statements of the
//! service that arrive meanwhile queue behind a waiting `ALTER TABLE`. A try that gets no lock is rolled
//! back and repeated after a pause in which the service works.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::migrate::{Migrate as _, MigrateError, Migration, Migrator};
use sqlx::{Connection as _, PgConnection, PgPool};
use tokio::time::{Instant, sleep, timeout};

use super::invalid_indexes::drop_invalid;
use super::lock;
use super::migration_error::{MigrationError, Waits};
use super::version::{SchemaMismatch, SchemaVersion, check_version, versions};

/// The table in which sqlx keeps the applied migrations.
const TABLE: &str = "_sqlx_migrations";
/// The time after which a migration is logged as in progress, and the interval of further lines.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(20);
/// The pause after the first try that got no lock. It doubles with each further try.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Applies the migrations that the schema lacks, and returns its version. Accepts a schema that a later
/// version has migrated, if this program can work with it. Several processes may call it at once: one
/// migrates, and the others wait.
pub async fn apply_missing(
    pool: &PgPool,
    migrations: &Migrator,
    waits: Waits,
) -> Result<SchemaVersion, MigrationError> {
    // A connection of its own: its end releases the lock and rolls back what is not complete.
    let mut conn = pool.acquire().await?.detach();
    let migrated = migrate(&mut conn, migrations, waits).await;
    // After an error the connection may be broken, and is dropped.
    if migrated.is_ok() {
        conn.close().await?;
    }
    migrated
}

async fn migrate(
    conn: &mut PgConnection,
    migrations: &Migrator,
    waits: Waits,
) -> Result<SchemaVersion, MigrationError> {
    let known = versions(migrations);
    let is_applied = match check_version(conn, &known).await {
        Ok(_) => find_missing(conn, migrations).await?.is_empty(),
        Err(SchemaMismatch::Missing | SchemaMismatch::Older { .. }) => false,
        Err(mismatch) => return Err(mismatch.into()),
    };
    if !is_applied {
        prepare(conn).await?;
        lock::acquire(conn, waits).await?;
        conn.ensure_migrations_table(TABLE).await.map_err(database)?;
        // Another process may have migrated in the meantime.
        let missing = find_missing(conn, migrations).await?;
        apply_all(conn, &missing, waits).await?;
    }
    let version = check_version(conn, &known).await?;
    if version.is_newer() {
        tracing::info!(
            schema = version.found,
            known = version.known,
            "schema is newer than this program and compatible with it"
        );
    }
    Ok(version)
}

/// Sets the timeouts of the connection, whatever the server, the user or the URL say.
async fn prepare(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "SELECT set_config('statement_timeout', '0', false) AS statement,
                set_config('idle_in_transaction_session_timeout', '60s', false) AS idle"
    )
    .fetch_one(&mut *conn)
    .await?;
    // Ends the statement of a process that was killed. Not every system of a server can notice that.
    let notices =
        sqlx::query!("SELECT set_config('client_connection_check_interval', '10s', false)");
    if let Err(error) = notices.fetch_one(conn).await {
        tracing::debug!(%error, "server does not check whether this process is alive");
    }
    Ok(())
}

async fn set_lock_timeout(conn: &mut PgConnection, limit: Duration) -> Result<(), sqlx::Error> {
    let limit = format!("{}ms", limit.as_millis());
    sqlx::query!("SELECT set_config('lock_timeout', $1, false)", limit).fetch_one(conn).await?;
    Ok(())
}

/// The migrations that are not applied, in their order.
async fn find_missing<'a>(
    conn: &mut PgConnection,
    migrations: &'a Migrator,
) -> Result<Vec<&'a Migration>, MigrationError> {
    let applied = conn.list_applied_migrations(TABLE).await.map_err(database)?;
    let applied: BTreeMap<i64, _> =
        applied.into_iter().map(|applied| (applied.version, applied.checksum)).collect();
    let mut missing = Vec::new();
    for migration in migrations.iter() {
        match applied.get(&migration.version) {
            Some(checksum) if *checksum == migration.checksum => {}
            Some(_) => return Err(MigrationError::Changed(migration.version)),
            None => missing.push(migration),
        }
    }
    Ok(missing)
}

async fn apply_all(
    conn: &mut PgConnection,
    missing: &[&Migration],
    waits: Waits,
) -> Result<(), MigrationError> {
    let Some((first, last)) = missing.first().zip(missing.last()) else { return Ok(()) };
    let started = Instant::now();
    tracing::info!(first = first.version, last = last.version, "migration of the schema started");
    for migration in missing {
        apply(conn, migration, waits).await?;
    }
    let seconds = started.elapsed().as_secs_f64();
    tracing::info!(version = last.version, seconds, "schema migrated");
    Ok(())
}

/// Applies a migration. A try that gets no lock, or is part of a deadlock, is repeated.
async fn apply(
    conn: &mut PgConnection,
    migration: &Migration,
    waits: Waits,
) -> Result<(), MigrationError> {
    let (version, started) = (migration.version, Instant::now());
    let mut pause = FIRST_PAUSE;
    // Outside of a transaction a migration waits for others without blocking them, and would begin
    // from the start.
    set_lock_timeout(conn, if migration.no_tx { waits.longest } else { waits.lock }).await?;
    while let Err(cause) = attempt(conn, migration, started).await {
        if !is_locked(&cause) {
            return Err(MigrationError::Failed { version, cause });
        }
        let blocker = find_blocker(conn).await?;
        if started.elapsed() + pause > waits.longest {
            let seconds = waits.longest.as_secs();
            return Err(MigrationError::Locked { version, seconds, blocker });
        }
        tracing::warn!(
            migration = version,
            oldest_transaction = blocker,
            retry_in_ms = pause.as_millis(),
            "migration got no lock and is repeated"
        );
        sleep(pause).await;
        pause = LONGEST_PAUSE.min(pause * 2);
    }
    let (description, seconds) = (&*migration.description, started.elapsed().as_secs_f64());
    tracing::info!(migration = version, description, seconds, "migration applied");
    Ok(())
}

/// Tries to apply a migration, and logs that it is in progress.
async fn attempt(
    conn: &mut PgConnection,
    migration: &Migration,
    started: Instant,
) -> Result<(), sqlx::Error> {
    if migration.no_tx {
        drop_invalid(conn).await?;
    }
    let mut applied = conn.apply(TABLE, migration);
    loop {
        match timeout(PROGRESS_INTERVAL, &mut applied).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => return Err(into_sqlx(error)),
            Err(_) => {
                let (version, seconds) = (migration.version, started.elapsed().as_secs());
                tracing::info!(migration = version, seconds, "migration in progress");
            }
        }
    }
}

/// Returns true if the same migration may succeed when other transactions have ended.
fn is_locked(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    // A lock timeout, a deadlock and a serialization failure.
    matches!(code.as_deref(), Some("55P03" | "40P01" | "40001"))
}

/// Describes the oldest other transaction of the database that holds a lock on a table.
async fn find_blocker(conn: &mut PgConnection) -> Result<String, sqlx::Error> {
    let blocker = sqlx::query_scalar!(
        r#"SELECT format('%s, process %s of the database server, %s, %s s old',
                         coalesce(nullif(application_name, ''), 'a program without a name'), pid,
                         coalesce(state, 'in an unknown state'),
                         coalesce(round(extract(epoch FROM now() - xact_start))::text, '?'))
                      AS "blocker!"
           FROM pg_stat_activity
           WHERE datname = current_database() AND pid <> pg_backend_pid()
             AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'relation' AND granted)
           ORDER BY xact_start LIMIT 1"#
    );
    let blocker = blocker.fetch_optional(conn).await?;
    Ok(blocker.unwrap_or_else(|| "no process any more".to_owned()))
}

fn database(error: MigrateError) -> MigrationError {
    MigrationError::Database(into_sqlx(error))
}

/// The error of the database in an error of the migrator.
fn into_sqlx(error: MigrateError) -> sqlx::Error {
    if let MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) = error {
        return error;
    }
    sqlx::Error::Migrate(Box::new(error))
}
