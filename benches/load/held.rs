//! The memory of streams that are held open.

use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::sleep;

use crate::client::Connection;
use crate::drive::drive;
use crate::proc::resident;
use crate::process::Process;
use crate::stack::Stack;

/// Turns before the first look, so that what a service allocates once is there.
const WARM_UP: usize = 64;
/// Time for buffers to settle before a look.
const SETTLE: Duration = Duration::from_secs(2);

/// Lets this process, and those that it starts, open as many files as the system grants.
pub(crate) fn raise_open_files() -> anyhow::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum })
        .context("the limit of open files cannot be raised")
}

/// Bytes of the service's memory that one held stream takes, each of a session of its own.
pub(crate) async fn held(stack: &Stack, server: &Process, streams: u32) -> anyhow::Result<f64> {
    drive(stack, server, 8, WARM_UP).await?;
    let mut maker = Connection::open(server.address).await?;
    let mut sessions = Vec::new();
    for _ in 0..streams {
        sessions.push(maker.create_session().await?);
    }
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
