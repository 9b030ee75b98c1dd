//! The service's side: starts the helper, holds its leash, reads what the command prints.

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

use super::helper::{GRACE, READY, Stage, Surroundings};
use super::job::MAX_COMMAND;
use super::output::Source;
use super::{Ending, Job, Level, Outcome, Output, SandboxError};

/// The helper's own patience, and time for it to end what is left.
const END: Duration = GRACE.saturating_add(Duration::from_secs(2));

pub(super) async fn run(
    helper: &Path,
    level: Level,
    job: &Job<'_>,
    stop: &CancellationToken,
) -> Result<Outcome, SandboxError> {
    let deadline = Instant::now() + job.deadline;
    let mut running = Running::start(helper, level, job)?;
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
    running.let_go();
    // What it says to its end is worth knowing; what holds on after that is not waited for.
    let _ = timeout_at(Instant::now() + END, running.ended()).await;
    let ending = if stop.is_cancelled() { Ending::Stopped } else { Ending::TimedOut };
    Ok(Outcome { ending, output: running.output })
}

/// As the shell counts.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// A command that runs. To drop it is to end it: the helper notices that its leash has ended.
struct Running {
    child: Child,
    leash: UnixStream,
    stdout: ChildStdout,
    stderr: ChildStderr,
    output: Output,
}

impl Running {
    fn start(helper: &Path, level: Level, job: &Job<'_>) -> Result<Self, SandboxError> {
        if job.command.len() > MAX_COMMAND {
            return Err(SandboxError::TooLong);
        }
        if job.command.contains('\0') {
            return Err(SandboxError::Nul);
        }
        Self::spawn(helper, &Surroundings::of(level, job), job.command).map_err(SandboxError::Start)
    }

    fn spawn(helper: &Path, surroundings: &Surroundings, command: &str) -> io::Result<Self> {
        let (leash, end) = UnixStream::pair()?;
        leash.set_nonblocking(true)?;
        // An empty environment, so that nothing of ours can be read back from a process of the
        // sandbox; a group of its own, so that a Ctrl-C meant for us does not end the keeper.
        let mut child = Command::new(helper)
            .args(surroundings.arguments(Stage::Keeper, command)?)
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
        Ok(Self { child, leash, stdout, stderr, output: Output::default() })
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

    /// Whether the helper came as far as to begin the command. It says so on the leash.
    fn check_set_up(&self) -> Result<(), SandboxError> {
        let mut said = [0];
        match (&self.leash).read(&mut said) {
            Ok(1) if said == READY => Ok(()),
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(SandboxError::Start(error)),
            _ => {
                let why = self.output.stderr.text().trim().to_owned();
                Err(SandboxError::SetUp(if why.is_empty() { "it ended".to_owned() } else { why }))
            }
        }
    }

    /// Tells the helper to end everything.
    fn let_go(&self) {
        // A helper that is gone needs not be told.
        let _ = self.leash.shutdown(Shutdown::Write);
    }
}
