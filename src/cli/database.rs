//! A database connection for commands that may run while the service runs.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection as _, PgConnection};
use tokio::time::{Instant, sleep};

use super::output;
use crate::app::connect;
use crate::config::{Database, DatabaseArgs};
use crate::store::roles::serve_all;
use crate::store::schema::{SchemaMismatch, check_schema, is_migrating};
use private_postgres::Existing;

/// Maximum time that a command waits while another process migrates the schema.
const MIGRATION_TIMEOUT: Duration = Duration::from_mins(2);
/// Maximum time between the start of a private database and the start of its migrations.
const MIGRATION_START_TIMEOUT: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Runs the work of a command on a database whose schema has this version. The private database is
/// started if no service runs.
pub(super) async fn with_database<T>(
    database: DatabaseArgs,
    command: &str,
    work: impl AsyncFnOnce(&mut PgConnection) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    match database.into_database()? {
        Database::Server(options) => connected(&options, command, Duration::ZERO, work).await,
        Database::Private(options) => {
            let existing = Existing::open(&options).await?;
            // The service that has just started it migrates the schema soon.
            let migration_starts_within = match existing {
                Existing::Started(_) => Duration::ZERO,
                Existing::Running(_) => MIGRATION_START_TIMEOUT,
            };
            let options = existing.connect_options();
            let done = connected(&options, command, migration_starts_within, work).await;
            existing.close().await?;
            done
        }
    }
}

async fn connected<T>(
    options: &PgConnectOptions,
    command: &str,
    migration_starts_within: Duration,
    work: impl AsyncFnOnce(&mut PgConnection) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let options = options.clone().application_name(command);
    // Runs queue behind a statement that waits for a lock, so the wait is short.
    let options = options.options([("lock_timeout", "5s")]);
    let mut conn = connect(&options).await?;
    check_schema_in_time(&mut conn, migration_starts_within).await?;
    serve_all(&mut conn).await?;
    let done = work(&mut conn).await?;
    conn.close().await?;
    Ok(done)
}

/// Waits while another process migrates the schema, or until it starts to within this time. Any
/// other schema of another version is an error.
async fn check_schema_in_time(
    conn: &mut PgConnection,
    migration_starts_within: Duration,
) -> Result<(), SchemaMismatch> {
    let began = Instant::now();
    let mut is_announced = false;
    loop {
        // Checked first: a migration that ends in between has changed the schema.
        let is_migrating = is_migrating(conn).await?;
        let time_limit = if is_migrating { MIGRATION_TIMEOUT } else { migration_starts_within };
        let checked = check_schema(conn).await.map(|_| ());
        if checked.is_ok() || began.elapsed() >= time_limit {
            return checked;
        }
        if !is_announced {
            output::print_error("Another process is migrating the schema; waiting for it.");
        }
        is_announced = true;
        sleep(POLL_INTERVAL).await;
    }
}
