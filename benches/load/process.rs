//! Starts child processes and stops them by their ids.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

const START_TIMEOUT: Duration = Duration::from_mins(1);
const STOP_TIMEOUT: Duration = Duration::from_secs(35);

/// A child process that has reported its address. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    pub(crate) pid: u32,
    pub(crate) address: SocketAddr,
    /// Kept open so that writes of the process to stdout do not fail.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts a program and waits for the line with its address. Its stderr goes to a file, which
    /// is included in the error if the program does not start.
    pub(crate) async fn start(name: &str, log: &Path, command: Command) -> anyhow::Result<Self> {
        let started = timeout(START_TIMEOUT, Self::started(log, command)).await;
        let started = started.unwrap_or_else(|_| bail!("it is too slow"));
        started.with_context(|| {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            format!("{name} did not start: {log}")
        })
    }

    async fn started(log: &Path, mut command: Command) -> anyhow::Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(log)?)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().context("it has ended")?;
        let stdout = child.stdout.take().context("no stdout")?;
        let mut stdout = BufReader::new(stdout).lines();
        while let Some(line) = stdout.next_line().await? {
            let Some((_, address)) = line.split_once("http://") else {
                continue;
            };
            return Ok(Self {
                child,
                pid,
                address: address.trim().trim_end_matches('/').parse()?,
                _stdout: stdout,
            });
        }
        bail!("it exited before it printed its address")
    }

    /// Sends SIGTERM and waits for the exit.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        // The id of a child is not reused before the child has been waited for.
        if let Some(pid) = pid
            && self.child.try_wait()?.is_none()
        {
            kill_process(pid, Signal::TERM)?;
        }
        if timeout(STOP_TIMEOUT, self.child.wait()).await.is_err() {
            self.child.kill().await?;
        }
        Ok(())
    }

    /// Kills the process and waits for its end.
    pub(crate) async fn kill(mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }
}
