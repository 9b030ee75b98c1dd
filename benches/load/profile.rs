//! Measures the time of the database by statement, with `pg_stat_statements`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use sqlx::PgConnection;
use tokio::time::sleep;

use crate::drive::drive;
use crate::process::Process;
use crate::report::statements::{Profile, SqlFile, Statement, Use};
use crate::stack::Stack;

/// The file that composes the statement of steps.
const STEP: &str = "statement.rs";

/// Time for all backends to read changed settings.
const RELOADED: Duration = Duration::from_millis(200);

/// Measures the statements of turns by this many clients.
pub(crate) async fn profile(
    stack: &Stack,
    server: &Process,
    name: &str,
    clients: usize,
    turns: u32,
) -> anyhow::Result<Profile> {
    let mut conn = stack.connect().await?;
    stack.track_statements(&mut conn, true).await?;
    sleep(RELOADED).await;
    let before = read(&mut conn).await?;
    let sample = drive(stack, server, clients, usize::try_from(turns)?).await?;
    let after = read(&mut conn).await?;
    stack.track_statements(&mut conn, false).await?;
    let statements = after.into_iter().filter_map(|(key, statement)| {
        let used = match before.get(&key) {
            Some(before) => statement.used.since(&before.used)?,
            None => statement.used,
        };
        Some(Statement { used, ..statement })
    });
    let load = if clients == 1 { "1 at a time".to_owned() } else { format!("{clients} at a time") };
    let turns = u32::try_from(sample.turns.len())?;
    Ok(Profile { name: format!("{name}, {load}"), turns, statements: statements.collect() })
}

/// The user, the query and the level of a statement.
type Key = (String, i64, bool);

async fn read(conn: &mut PgConnection) -> anyhow::Result<HashMap<Key, Statement>> {
    type Row = (String, i64, bool, String, f64, f64, f64, f64);
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT userid::text, queryid, toplevel, query, calls::float8, total_exec_time,
                total_plan_time, wal_bytes::float8
         FROM pg_stat_statements
         WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
           AND query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE '%pg_reload_conf%'",
    )
    .fetch_all(conn)
    .await?;
    let statements = rows.into_iter().map(|row| {
        let (user, id, is_toplevel, query, calls, execution_ms, planning_ms, wal_bytes) = row;
        let used = Use { calls, execution_ms, planning_ms, wal_bytes };
        ((user, id, is_toplevel), Statement { query, is_nested: !is_toplevel, used })
    });
    Ok(statements.collect())
}

/// The SQL files of the service. Without its sources, statements are named by their tables.
pub(crate) fn sql_files() -> anyhow::Result<Vec<SqlFile>> {
    let mut files = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.file_name().context("a file without a name")?.to_string_lossy();
            if name.ends_with(".sql") {
                files.push(SqlFile::new(&name, &fs::read_to_string(&path)?));
            } else if name == STEP {
                let text = fs::read_to_string(&path)?;
                let (_, statement) =
                    text.split_once("r#\"WITH ").context("no statement of steps")?;
                files.push(SqlFile::new("step", &format!("WITH {statement}")));
            }
        }
    }
    Ok(files)
}
