//! Measures the memory of idle streams that are held open.

use std::time::Duration;

use tokio::time::sleep;

use crate::client::Connection;
use crate::drive::drive;
use crate::proc::resident;
use crate::process::Process;
use crate::stack::Stack;

/// Turns before the first measurement, so that one-time allocations are done.
const WARM_UP: usize = 64;
/// Time for buffers to settle before a measurement.
const SETTLE: Duration = Duration::from_secs(2);

/// Returns the memory of the service per held stream, in bytes. Each stream follows its own
/// session.
pub(crate) async fn held(stack: &Stack, server: &Process, streams: u32) -> anyhow::Result<f64> {
    drive(stack, server, 8, WARM_UP).await?;
    let sessions = Connection::open(server.address).await?.create_sessions(streams).await?;
    sleep(SETTLE).await;
    let before = resident(server.pid)?;
    let mut followers = Vec::new();
    for session in &sessions {
        let mut follower = Connection::open(server.address).await?;
        follower.follow(session).await?;
        followers.push(follower);
    }
    sleep(SETTLE).await;
    let grown = resident(server.pid)?.saturating_sub(before);
    drop(followers);
    Ok(f64::from(u32::try_from(grown)?) / f64::from(streams))
}
