//! The service's side of a command: starts the helper, holds the control socket, reads the output.

use std::io::{self, ErrorKind, Read as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::helper::{GRACE, Parameters, READY, Stage};
use super::job::MAX_COMMAND;
use super::output::Source;
use super::{Ending, Job, Outcome, Output, SandboxError};

/// Time for the helper to end the command and the remaining processes.
const END: Duration = GRACE.saturating_add(Duration::from_secs(2));

pub(super) async fn run(
    helper: &Path,
    parameters: &Parameters,
    job: &Job<'_>,
    stop: &CancellationToken,
) -> Result<Outcome, SandboxError> {
    let deadline = Instant::now() + job.deadline;
    let mut running = Running::start(helper, parameters, job)?;
    let ended = tokio::select! {
        ended = timeout_at(deadline, running.ended()) => match ended {
            Ok(status) => Some(status.map_err(SandboxError::Start)?),
            Err(_elapsed) => None,
        },
        () = stop.cancelled() => None,
    };
    if let Some(status) = ended {
        running.check_set_up()?;
        let ending = Ending::Exited(code(status));
        return Ok(Outcome { ending, output: running.output });
    }
    running.close_control();
    // Reads the rest of the output, but does not wait for processes that do not end.
    let _ = timeout_at(Instant::now() + END, running.ended()).await;
    let ending = if stop.is_cancelled() { Ending::Stopped } else { Ending::TimedOut };
    Ok(Outcome { ending, output: running.output })
}

/// The exit code, as in the shell.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// A running command. Dropping it ends it: the helper sees the end of the control socket.
struct Running {
    child: Child,
    control: UnixStream,
    stdout: ChildStdout,
    stderr: ChildStderr,
    output: Output,
}

impl Running {
    fn start(helper: &Path, parameters: &Parameters, job: &Job<'_>) -> Result<Self, SandboxError> {
        if job.command.len() > MAX_COMMAND {
            return Err(SandboxError::TooLong);
        }
        if job.command.contains('\0') {
            return Err(SandboxError::Nul);
        }
        Self::spawn(helper, parameters, job.command).map_err(SandboxError::Start)
    }

    fn spawn(helper: &Path, parameters: &Parameters, command: &str) -> io::Result<Self> {
        let (control, end) = UnixStream::pair()?;
        control.set_nonblocking(true)?;
        // An empty environment, so that no process of the sandbox can read the service's; a process
        // group of its own, so that Ctrl-C in the terminal does not end the keeper.
        let mut child = Command::new(helper)
            .args(parameters.arguments(Stage::Keeper, command)?)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(end)))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        Ok(Self { child, control, stdout, stderr, output: Output::default() })
    }

    /// Reads both streams to their ends and waits for the helper, which ends last.
    async fn ended(&mut self) -> io::Result<ExitStatus> {
        let (mut out, mut err) = (vec![0; 16 * 1024], vec![0; 16 * 1024]);
        let (mut out_ended, mut err_ended) = (false, false);
        while !(out_ended && err_ended) {
            let (source, read) = tokio::select! {
                read = self.stdout.read(&mut out), if !out_ended => (Source::Stdout, read?),
                read = self.stderr.read(&mut err), if !err_ended => (Source::Stderr, read?),
            };
            let (buffer, has_ended) = match source {
                Source::Stdout => (&out, &mut out_ended),
                Source::Stderr => (&err, &mut err_ended),
            };
            *has_ended = read == 0;
            self.output.take(source, buffer.get(..read).unwrap_or_default());
        }
        self.child.wait().await
    }

    /// Checks that the helper reached the start of the command, by its byte on the control socket.
    fn check_set_up(&self) -> Result<(), SandboxError> {
        let mut signal = [0];
        match (&self.control).read(&mut signal) {
            Ok(1) if signal == READY => Ok(()),
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(SandboxError::Start(error)),
            _ => {
                let why = self.output.stderr.text().trim().to_owned();
                Err(SandboxError::SetUp(if why.is_empty() {
                    "the helper ended".to_owned()
                } else {
                    why
                }))
            }
        }
    }

    /// Closes the control socket, which makes the helper end all processes.
    fn close_control(&self) {
        // The helper may have ended already.
        let _ = self.control.shutdown(Shutdown::Write);
    }
}
