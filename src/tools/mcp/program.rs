//! A server that is a program: started with nothing but what the operator names, and ended with all
//! that it has started.

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

use super::leash::Leash;
use super::lines::Lines;
use super::settings::Program;
use crate::tools::policy::visible;

/// How long a program may take to end once it hears nothing more, and once it is told to.
const GRACE: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// What is logged of one program: lines, and bytes of each.
const MAX_LINES: usize = 1000;
const MAX_LINE: u64 = 4096;

/// A program, and the streams by which it is spoken to.
pub(super) struct Running {
    child: Child,
    /// Ends it when nobody else does.
    leash: Option<Leash>,
    streams: AsyncRwTransport<RoleClient, Lines<ChildStdout>, ChildStdin>,
}

impl Running {
    /// Starts it, in a group of its own and with an environment of its own. What it says on stderr
    /// is logged by one of these tasks.
    pub(super) fn start(name: &str, program: &Program, tasks: &TaskTracker) -> io::Result<Self> {
        let mut child = Command::new(&program.command)
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
        let streams = AsyncRwTransport::new_client(Lines::new(stdout), stdin);
        let mut running = Self { child, leash: None, streams };
        match running.group().map(Leash::on) {
            Some(Err(error)) => tracing::warn!(
                mcp.server = %name, %error,
                "nobody would end the program of a tool server if the service were killed"
            ),
            leash => running.leash = leash.and_then(Result::ok),
        }
        Ok(running)
    }

    /// Its group, which is there as long as nobody has asked for the program's status.
    fn group(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id()?.try_into().ok()?)
    }

    /// Waits for the program's end for a while, without asking for its status.
    async fn has_ended(&self, group: Pid) -> bool {
        let until = Instant::now() + GRACE;
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while Instant::now() < until {
            if !matches!(waitid(WaitId::Pid(group), look), Ok(None) | Err(Errno::INTR)) {
                return true;
            }
            sleep(LOOK_EVERY).await;
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

    /// Says nothing more, then that it is to end, then ends all that is left of its group.
    async fn close(&mut self) -> Result<(), Self::Error> {
        self.streams.close().await?;
        let Some(group) = self.group() else { return Ok(()) };
        if !self.has_ended(group).await {
            let _ = kill_process_group(group, Signal::TERM);
            self.has_ended(group).await;
        }
        let _ = kill_process_group(group, Signal::KILL);
        // From here on the number of the group may be that of another.
        self.leash = None;
        self.child.wait().await.map(|_status| ())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.leash = None;
        if let Some(group) = self.group() {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Logs what a program says on stderr, and reads the rest of it for nobody: one that cannot write
/// stands still.
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
    tracing::debug!(mcp.server = %server, "what else the program says is not logged");
    let _ = tokio::io::copy_buf(&mut stderr, &mut tokio::io::sink()).await;
}
