//! Holding the service in the middle of a commit: a trigger waits for a lock that the test has.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, PgPool};
use tokio::time::sleep;

use crate::arena::Arena;
use crate::cluster::{Database, NODES};

/// How long a place is waited for.
pub(crate) const REACHED_WITHIN: Duration = Duration::from_secs(30);

/// A commit that is to be held.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Commit {
    pub(crate) table: &'static str,
    /// `INSERT` or `UPDATE`.
    pub(crate) on: &'static str,
    /// Which rows.
    pub(crate) when: &'static str,
}

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Hold {
    conn: PgConnection,
    undo: String,
}

/// Who waits in a commit.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) seat: usize,
    pub(crate) backend: i32,
}

impl Hold {
    /// Holds the commits of such rows, at the moment when the transaction is about to end.
    pub(crate) async fn commit(database: &Database, commit: Commit) -> anyhow::Result<Self> {
        let Commit { table, on, when } = commit;
        let make = format!(
            "CREATE CONSTRAINT TRIGGER crash_hold AFTER {on} ON {table} DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION crash.hold()"
        );
        Self::new(database, make, format!("DROP TRIGGER crash_hold ON {table}")).await
    }

    /// Holds a migration after it has made this table.
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

    /// Waits until somebody is held.
    pub(crate) async fn held(&self, pool: &PgPool) -> anyhow::Result<Option<Held>> {
        let waiting =
            "SELECT a.usename::text, a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
                       WHERE l.locktype = 'advisory' AND NOT l.granted AND l.objid = 4711
                         AND a.datname = current_database()";
        let deadline = Instant::now() + REACHED_WITHIN;
        while Instant::now() < deadline {
            let row: Option<(String, i32)> = sqlx::query_as(waiting).fetch_optional(pool).await?;
            if let Some((node, backend)) = row {
                let seat = NODES.iter().position(|name| *name == node);
                return Ok(Some(Held { seat: seat.context("a stranger waits")?, backend }));
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(None)
    }

    /// Lets everybody go on, and holds nobody any more.
    pub(crate) async fn release(mut self) -> anyhow::Result<()> {
        self.conn.execute("SELECT pg_advisory_unlock(4711)").await?;
        self.conn.execute(AssertSqlSafe(self.undo)).await?;
        Ok(())
    }
}

/// Waits until a failpoint has left its mark.
pub(crate) async fn reached(arena: &Arena, point: &str, kind: &str) -> anyhow::Result<PathBuf> {
    let mark = arena.mark(point, kind);
    let deadline = Instant::now() + REACHED_WITHIN;
    while !mark.exists() {
        if Instant::now() > deadline {
            bail!("{point} was not reached");
        }
        sleep(Duration::from_millis(2)).await;
    }
    Ok(mark)
}
