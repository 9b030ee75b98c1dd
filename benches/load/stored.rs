//! Measures turns on a database with many stored sessions.

use std::time::Instant;

use anyhow::Context as _;
use sqlx::{AssertSqlSafe, Executor as _};

use crate::MANY;
use crate::drive::drive;
use crate::output::note;
use crate::report::figures::Stored;
use crate::report::row::Pair;
use crate::report::script::statements;
use crate::stack::Stack;

/// The events of a stored session.
const EVENTS: u32 = 50;
/// The script that fills a migrated database. It is read when it is needed.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/load/stored.sql");
/// Turns before the measurement.
const WARM_UP: usize = 128;

/// Measures the service on a filled and on an empty database in alternation.
pub(crate) async fn stored(
    stack: &Stack,
    sessions: u32,
    rounds: u32,
    turns: usize,
) -> anyhow::Result<Stored> {
    let empty = stack.create_database().await?;
    let filled = stack.create_database().await?;
    let on_empty = stack.start_service_on(&empty).await?;
    // The first start applies the migrations.
    stack.start_service_on(&filled).await?.stop().await?;
    fill(stack, &filled, sessions).await?;
    let on_filled = stack.start_service_on(&filled).await?;
    for server in [&on_empty, &on_filled] {
        drive(stack, server, MANY, WARM_UP).await?;
    }
    let mut measured = Vec::new();
    for _ in 0..rounds {
        let reference = Some(drive(stack, &on_empty, MANY, turns).await?);
        let service = drive(stack, &on_filled, MANY, turns).await?;
        measured.push(Pair { service, reference });
    }
    on_empty.stop().await?;
    on_filled.stop().await?;
    Ok(Stored { sessions, rounds: measured })
}

async fn fill(stack: &Stack, url: &str, sessions: u32) -> anyhow::Result<()> {
    note(&format!("storing {sessions} sessions with {EVENTS} events each"));
    let started = Instant::now();
    let script = std::fs::read_to_string(SCRIPT).context(SCRIPT)?;
    let mut conn = stack.connect_to(url).await?;
    for statement in statements(&script, &[("sessions", sessions), ("events", EVENTS)]) {
        conn.execute(AssertSqlSafe(statement)).await?;
    }
    for statement in ["VACUUM (ANALYZE)", "CHECKPOINT"] {
        conn.execute(statement).await?;
    }
    let bytes: i64 = sqlx::query_scalar("SELECT pg_database_size(current_database())")
        .fetch_one(&mut conn)
        .await?;
    note(&format!("stored {} MB in {} s", bytes / 1_000_000, started.elapsed().as_secs()));
    Ok(())
}
