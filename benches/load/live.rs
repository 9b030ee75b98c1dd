//! Measures many runs at the same time, each of which waits for a slow reply of the model.

use std::time::Duration;

use anyhow::bail;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::client::{Connection, Course};
use crate::drive::drive;
use crate::output::note;
use crate::proc::resident;
use crate::process::Process;
use crate::report::figures::LiveRuns;
use crate::report::sample::Turn;
use crate::stack::{SLOW_TEXT, Stack};

/// Turns before the measurement, so that one-time allocations are done.
const WARM_UP: usize = 64;

/// Starts this many runs, evenly distributed over half the duration of a reply, so that all of them
/// are live at the same time, and waits for their ends. A run that takes longer than twice the
/// duration of a reply and 10 s is an error.
pub(crate) async fn live(
    stack: &Stack,
    server: &Process,
    runs: u32,
    reply: Duration,
) -> anyhow::Result<LiveRuns> {
    drive(stack, server, 8, WARM_UP).await?;
    let sessions = Connection::open(server.address).await?.create_sessions(runs).await?;
    let before = resident(server.pid)?;
    let limit = reply * 2 + Duration::from_secs(10);
    let begin = Instant::now();
    let mut running = JoinSet::new();
    for (session, number) in sessions.into_iter().zip(0..runs) {
        let start = begin + reply / 2 * number / runs;
        let address = server.address;
        running.spawn(async move {
            sleep_until(start).await;
            let Ok(turn) = timeout(limit, one(address, &session)).await else {
                bail!("not completed within {} s", limit.as_secs());
            };
            turn
        });
    }
    // All are live: the last has started, and the first has not ended.
    sleep_until(begin + reply * 3 / 4).await;
    let grown = resident(server.pid)?.saturating_sub(before);
    let bytes = f64::from(u32::try_from(grown)?) / f64::from(runs);
    let mut outcome = LiveRuns { bytes, ..LiveRuns::default() };
    while let Some(turn) = running.join_next().await {
        match turn? {
            Ok(turn) => outcome.completed.push(turn),
            Err(error) => {
                if outcome.errors == 0 {
                    note(&format!("the first run that failed: {error:#}"));
                }
                outcome.errors += 1;
            }
        }
    }
    Ok(outcome)
}

async fn one(address: std::net::SocketAddr, session: &str) -> anyhow::Result<Turn> {
    let mut connection = Connection::open(address).await?;
    connection.read_turn(session, SLOW_TEXT, Course::Answer).await
}
