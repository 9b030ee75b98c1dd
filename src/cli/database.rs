//! A connection for commands that work beside a service.

use anyhow::Context as _;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};

use crate::config::{Database, DatabaseArgs};
use crate::store::embedded::Existing;
use crate::store::roles::serve_all;
use crate::store::verify::check_schema;

/// Does the work of the command of this name on a database of this version's schema. It may be the
/// private one, whether or not a service runs.
pub(super) async fn with_database<T>(
    database: DatabaseArgs,
    command: &str,
    work: impl AsyncFnOnce(&mut PgConnection) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    match database.into_database()? {
        Database::Server(options) => connected(&options, command, work).await,
        Database::Embedded(options) => {
            let existing = Existing::open(&options).await?;
            let done = connected(&existing.connect_options(), command, work).await;
            existing.close().await?;
            done
        }
    }
}

async fn connected<T>(
    options: &PgConnectOptions,
    command: &str,
    work: impl AsyncFnOnce(&mut PgConnection) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let options = options.clone().application_name(command);
    // Who waits for a lock must not hold up all runs behind it.
    let options = options.options([("lock_timeout", "5s")]);
    let mut conn = options.connect().await.context("the database cannot be reached")?;
    check_schema(&mut conn).await?;
    serve_all(&mut conn).await?;
    let done = work(&mut conn).await?;
    conn.close().await?;
    Ok(done)
}
