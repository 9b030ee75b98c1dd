//! Measures the time from starting the program to its first ready response.

use std::time::Instant;

use anyhow::ensure;

use crate::client::Connection;
use crate::process::Process;
use crate::report::figures::Starts;
use crate::report::median::median;
use crate::stack::Stack;

/// Starts on a running database; the result is their median.
const STARTS: usize = 5;

pub(crate) async fn starts(stack: &Stack) -> anyhow::Result<Starts> {
    let mut warm = Vec::new();
    for _ in 0..STARTS {
        warm.push(timed(stack.start_service()).await?);
    }
    Ok(Starts {
        warm: median(warm).unwrap_or(f64::NAN),
        first_private_postgres: timed(stack.start_service_with_private_postgres()).await?,
        later_private_postgres: timed(stack.start_service_with_private_postgres()).await?,
    })
}

async fn timed(start: impl Future<Output = anyhow::Result<Process>>) -> anyhow::Result<f64> {
    let started = Instant::now();
    let process = start.await?;
    let is_ready = Connection::open(process.address).await?.is_ready().await;
    let elapsed = started.elapsed();
    process.stop().await?;
    ensure!(is_ready, "the service started and is not ready");
    Ok(elapsed.as_secs_f64() * 1000.0)
}
