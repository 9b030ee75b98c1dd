//! A connection for commands that work beside a service.

use std::time::Duration;

use anyhow::Context as _;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use tokio::time::{Instant, sleep};

use super::output;

use crate::config::{Database, DatabaseArgs};
use crate::store::migrating::is_migrating;
use crate::store::roles::serve_all;
use crate::store::verify::{SchemaMismatch, check_schema};
use private_postgres::Existing;

/// How long a schema is waited for that somebody brings up to date.
const MIGRATED_WITHIN: Duration = Duration::from_mins(2);
/// What a service may take from the start of its private database to that of its migrations.
const BEGUN_WITHIN: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Does the work of the command of this name on a database of this version's schema. It may be the
/// private one, whether or not a service runs.
pub(super) async fn with_database<T>(
    database: DatabaseArgs,
    command: &str,
    work: impl AsyncFnOnce(&mut PgConnection) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    match database.into_database()? {
        Database::Server(options) => connected(&options, command, Duration::ZERO, work).await,
        Database::Embedded(options) => {
            let existing = Existing::open(&options).await?;
            // Who has just started it makes the schema in a moment.
            let begins_within = match existing {
                Existing::Started(_) => Duration::ZERO,
                Existing::Running(_) => BEGUN_WITHIN,
            };
            let options = existing.connect_options();
            let done = connected(&options, command, begins_within, work).await;
            existing.close().await?;
            done
        }
    }
}

async fn connected<T>(
    options: &PgConnectOptions,
    command: &str,
    begins_within: Duration,
    work: impl AsyncFnOnce(&mut PgConnection) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let options = options.clone().application_name(command);
    // Who waits for a lock must not hold up all runs behind it.
    let options = options.options([("lock_timeout", "5s")]);
    let mut conn = options.connect().await.context("the database cannot be reached")?;
    check_schema_in_time(&mut conn, begins_within).await?;
    serve_all(&mut conn).await?;
    let done = work(&mut conn).await?;
    conn.close().await?;
    Ok(done)
}

/// Waits for a schema that another process brings up to date just now, or will within this time, and
/// refuses any other that is not of this version.
async fn check_schema_in_time(
    conn: &mut PgConnection,
    begins_within: Duration,
) -> Result<(), SchemaMismatch> {
    let began = Instant::now();
    let mut is_told = false;
    loop {
        // Asked first: what ends in between has made the schema.
        let is_migrating = is_migrating(conn).await?;
        let patience = if is_migrating { MIGRATED_WITHIN } else { begins_within };
        let checked = check_schema(conn).await;
        if checked.is_ok() || began.elapsed() >= patience {
            return checked;
        }
        if !is_told {
            output::complain(
                "The schema is brought up to date by another process; waiting for it.",
            );
        }
        is_told = true;
        sleep(LOOK_EVERY).await;
    }
}
