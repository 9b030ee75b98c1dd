//! The lock that lets one process migrate at a time: the advisory lock of sqlx, which earlier versions
//! and `sqlx migrate run` take too.

use std::time::Duration;

use sqlx::PgConnection;
use tokio::time::{Instant, sleep};

use super::migration_error::{MigrationError, Waits};
use crate::store::error::StoreError;

/// The interval between two tries. A process that waited inside of a statement would hold a snapshot,
/// and `CREATE INDEX CONCURRENTLY` waits for all snapshots.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The interval between two log lines of a process that waits.
const LOG_INTERVAL: Duration = Duration::from_secs(30);

/// Takes the lock, which the end of the connection releases. Waits while another process migrates.
pub(super) async fn acquire(conn: &mut PgConnection, waits: Waits) -> Result<(), MigrationError> {
    let name = sqlx::query_scalar!(r#"SELECT current_database()::text AS "name!""#)
        .fetch_one(&mut *conn)
        .await?;
    let (key, started) = (key(&name), Instant::now());
    let mut logged: Option<Instant> = None;
    while !try_acquire(conn, key).await? {
        if logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
            let holder = holder(conn).await?;
            tracing::info!(
                holder,
                seconds = started.elapsed().as_secs(),
                "waiting for another process that migrates the schema"
            );
            logged = Some(Instant::now());
        }
        if started.elapsed() > waits.longest {
            let holder = holder(conn).await?;
            return Err(MigrationError::AnotherMigrates {
                seconds: waits.longest.as_secs(),
                holder,
            });
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

async fn try_acquire(conn: &mut PgConnection, key: i64) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar!(r#"SELECT pg_try_advisory_lock($1) AS "is_acquired!""#, key)
        .fetch_one(conn)
        .await
}

/// Describes the process that holds the lock.
async fn holder(conn: &mut PgConnection) -> Result<String, sqlx::Error> {
    let holder = sqlx::query_scalar!(
        r#"SELECT format('%s, process %s of the database server',
                         coalesce(nullif(application_name, ''), 'a program without a name'), pid)
                      AS "holder!"
           FROM pg_locks JOIN pg_stat_activity USING (pid)
           WHERE locktype = 'advisory' AND objsubid = 1 AND granted
             AND pg_locks.database = (SELECT oid FROM pg_database
                                      WHERE datname = current_database())
           LIMIT 1"#
    );
    let holder = holder.fetch_optional(conn).await?;
    Ok(holder.unwrap_or_else(|| "a process that has just ended".to_owned()))
}

/// The number of sqlx's lock on a database of this name.
fn key(database: &str) -> i64 {
    0x3d32_ad9e * i64::from(crc32(database.as_bytes()))
}

/// The CRC-32 of ISO-HDLC, as zip and PNG have it.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 }
        })
    })
}

/// Returns whether a process is running migrations or waits to run them. Migrations hold an
/// advisory lock on the database; the service takes no other lock of this kind.
pub async fn is_migrating(conn: &mut PgConnection) -> Result<bool, StoreError> {
    Ok(sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM pg_locks
                          WHERE locktype = 'advisory' AND objsubid = 1
                            AND database = (SELECT oid FROM pg_database
                                            WHERE datname = current_database())) AS "is!""#
    )
    .fetch_one(conn)
    .await?)
}

#[cfg(test)]
mod tests {
    use sqlx::migrate::Migrate as _;

    use super::*;
    use crate::store::testing::database;

    #[tokio::test]
    async fn the_lock_is_that_of_earlier_versions() {
        let database = database().await;
        let pool = database.pool(2);
        let (mut earlier, mut conn) =
            (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
        let key = key(database.options().get_database().unwrap());
        earlier.lock().await.unwrap();
        assert!(!try_acquire(&mut conn, key).await.unwrap());
        earlier.unlock().await.unwrap();
        assert!(try_acquire(&mut conn, key).await.unwrap());
    }
}
