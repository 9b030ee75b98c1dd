//! Stops the service inside a commit: a trigger waits for a lock that the test holds.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, PgPool};
use tokio::time::sleep;

use crate::cluster::{Database, NODES};
use crate::testbed::Testbed;

/// The limit for waiting until a point is reached.
pub(crate) const REACHED_WITHIN: Duration = Duration::from_secs(30);

/// The commits to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Commit {
    pub(crate) table: &'static str,
    /// `INSERT` or `UPDATE`.
    pub(crate) on: &'static str,
    /// A condition on the rows.
    pub(crate) when: &'static str,
}

/// The lock, held by the test.
#[derive(Debug)]
pub(crate) struct Hold {
    conn: PgConnection,
    undo: String,
}

/// A node that waits inside a commit.
#[derive(Debug)]
pub(crate) struct HeldBackend {
    pub(crate) index: usize,
    pub(crate) backend: i32,
}

impl Hold {
    /// Stops the commits of such rows, at the end of the transaction.
    pub(crate) async fn commit(database: &Database, commit: Commit) -> anyhow::Result<Self> {
        let Commit { table, on, when } = commit;
        let make = format!(
            "CREATE CONSTRAINT TRIGGER crash_hold AFTER {on} ON {table} DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION crash.hold()"
        );
        Self::new(database, make, format!("DROP TRIGGER crash_hold ON {table}")).await
    }

    /// Stops a migration after it has created this table.
    pub(crate) async fn migration(database: &Database, table: &str) -> anyhow::Result<Self> {
        let make = format!(
            "CREATE FUNCTION crash_hold() RETURNS event_trigger LANGUAGE plpgsql AS $$
             BEGIN
                 IF to_regclass('{table}') IS NOT NULL THEN
                     PERFORM pg_advisory_xact_lock_shared(4711);
                 END IF;
             END
             $$;
             CREATE EVENT TRIGGER crash_hold ON ddl_command_end EXECUTE FUNCTION crash_hold()"
        );
        Self::new(database, make, "DROP EVENT TRIGGER crash_hold".to_owned()).await
    }

    async fn new(database: &Database, make: String, undo: String) -> anyhow::Result<Self> {
        let mut conn = database.connect().await?;
        conn.execute("SELECT pg_advisory_lock(4711)").await?;
        conn.execute(AssertSqlSafe(make)).await?;
        Ok(Self { conn, undo })
    }

    /// Waits until a node waits for the lock. Returns `None` after the limit.
    pub(crate) async fn wait_until_held(
        &self,
        pool: &PgPool,
    ) -> anyhow::Result<Option<HeldBackend>> {
        let waiting =
            "SELECT a.usename::text, a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
                       WHERE l.locktype = 'advisory' AND NOT l.granted AND l.objid = 4711
                         AND a.datname = current_database()";
        let deadline = Instant::now() + REACHED_WITHIN;
        while Instant::now() < deadline {
            let row: Option<(String, i32)> = sqlx::query_as(waiting).fetch_optional(pool).await?;
            if let Some((node, backend)) = row {
                let index = NODES.iter().position(|name| *name == node);
                return Ok(Some(HeldBackend {
                    index: index.context("a connection that is not of a node waits")?,
                    backend,
                }));
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(None)
    }

    /// Releases the lock and removes the trigger.
    pub(crate) async fn release(mut self) -> anyhow::Result<()> {
        self.conn.execute("SELECT pg_advisory_unlock(4711)").await?;
        self.conn.execute(AssertSqlSafe(self.undo)).await?;
        Ok(())
    }
}

/// Waits until a failpoint is reached. Returns the file by which it reports that.
pub(crate) async fn wait_for_failpoint(
    testbed: &Testbed,
    point: &str,
    kind: &str,
) -> anyhow::Result<PathBuf> {
    let mark = testbed.mark(point, kind);
    let deadline = Instant::now() + REACHED_WITHIN;
    while !mark.exists() {
        if Instant::now() > deadline {
            bail!("{point} was not reached");
        }
        sleep(Duration::from_millis(2)).await;
    }
    Ok(mark)
}
