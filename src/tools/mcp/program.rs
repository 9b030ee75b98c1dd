//! An MCP server that is a local program. It starts with only the configured environment, and its
//! whole process group is stopped with it.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::lines::BoundedLines;
use super::settings::{Program, UserIds};
use super::watchdog::Watchdog;
use crate::tools::policy::visible;

/// Grace period after the program's stdin is closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_millis(500);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Limits on the logged stderr of one program: lines, and bytes of each line.
const MAX_LINES: usize = 1000;
const MAX_LINE: u64 = 4096;

/// A running program and its message streams.
pub(super) struct Running {
    child: Child,
    /// Terminates the program if the service is killed.
    watchdog: Option<Watchdog>,
    streams: AsyncRwTransport<RoleClient, BoundedLines<ChildStdout>, ChildStdin>,
}

impl Running {
    /// Starts the program in its own process group with its own environment. A task logs its
    /// stderr.
    pub(super) fn start(name: &str, program: &Program, tasks: &TaskTracker) -> io::Result<Self> {
        let mut command = Command::new(&program.command);
        if let Some(UserIds { uid, gid }) = program.user {
            // std drops the supplementary groups as well.
            command.gid(gid).uid(uid);
        }
        let mut child = command
            .args(&program.args)
            .env_clear()
            .envs(&program.env)
            .current_dir(program.folder.as_deref().unwrap_or("/".as_ref()))
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        tasks.spawn(log(name.to_owned(), stderr));
        let streams = AsyncRwTransport::new_client(BoundedLines::new(stdout), stdin);
        let mut running = Self { child, watchdog: None, streams };
        match running.group().map(Watchdog::start) {
            Some(Err(error)) => tracing::warn!(
                mcp.server = %name, %error,
                                "watchdog of a tool server program not started"
            ),
            watchdog => running.watchdog = watchdog.and_then(Result::ok),
        }
        Ok(running)
    }

    /// Returns the process group. It exists at least until the program's exit status is
    /// collected.
    fn group(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id()?.try_into().ok()?)
    }

    /// Waits for the program to exit during the grace period, without collecting its exit
    /// status.
    async fn has_ended(&self, group: Pid) -> bool {
        let until = Instant::now() + GRACE;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while Instant::now() < until {
            if !matches!(waitid(WaitId::Pid(group), options), Ok(None) | Err(Errno::INTR)) {
                return true;
            }
            sleep(POLL_INTERVAL).await;
        }
        false
    }
}

impl Transport<RoleClient> for Running {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.streams.send(message)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.streams.receive()
    }

    /// Closes stdin, then sends SIGTERM, then SIGKILL to the rest of the process group.
    async fn close(&mut self) -> Result<(), Self::Error> {
        self.streams.close().await?;
        let Some(group) = self.group() else { return Ok(()) };
        if !self.has_ended(group).await {
            let _ = kill_process_group(group, Signal::TERM);
            self.has_ended(group).await;
        }
        let _ = kill_process_group(group, Signal::KILL);
        // After the exit status is collected, the system can assign the group ID to other
        // processes.
        self.watchdog = None;
        self.child.wait().await.map(|_status| ())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.watchdog = None;
        if let Some(group) = self.group() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Logs a program's stderr up to the limits and discards the rest. It must be read, because a
/// program blocks when the pipe is full.
async fn log(server: String, stderr: ChildStderr) {
    let mut stderr = BufReader::new(stderr);
    for _ in 0..MAX_LINES {
        let mut line = Vec::new();
        match (&mut stderr).take(MAX_LINE).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                tracing::debug!(mcp.server = %server, stderr = %visible(text.trim_end()));
            }
        }
    }
    tracing::debug!(mcp.server = %server, "stderr limit reached; further lines are discarded");
    let _ = tokio::io::copy_buf(&mut stderr, &mut tokio::io::sink()).await;
}
