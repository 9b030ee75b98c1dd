//! The first stage: outside the sandbox, alive as long as any process in it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, set_child_subreaper};

use super::super::OURSELVES;
use super::cgroup::Group;
use super::placeholders::Placeholders;
use super::{
    GRACE, Level, Parameters, Stage, bubblewrap, close_inherited_on_exec, could_not, tree,
};

/// Delay after the deadline before the keeper enforces it, because the service normally does.
const KEEPER_DELAY: Duration = Duration::from_secs(3);

/// Runs the command and waits for its end. Ends it when the service closes the control socket.
pub(super) fn keep(mut parameters: Parameters, command: &str) -> Result<ExitCode, String> {
    close_inherited_on_exec();
    // Orphaned processes of the command become children of this process, so none escapes.
    set_child_subreaper(Some(getpid())).map_err(|error| format!("no subreaper: {error}"))?;
    let _group = Group::join();
    let temporary = match parameters.level {
        Level::Full => None,
        Level::Basic => Some(Temporary::make().map_err(could_not("no temporary folder"))?),
    };
    parameters.temporary = temporary.as_ref().map(|folder| folder.0.clone());
    let placeholders = match parameters.level {
        Level::Full => Some(Placeholders::put(&parameters)?),
        Level::Basic => None,
    };
    if let Some(placeholders) = &placeholders {
        parameters.protected_as = placeholders.identities();
    }
    let ended = watch(&parameters, command);
    // In this order: no process runs any more when the folders are removed.
    tree::end_all();
    drop((placeholders, temporary));
    ended
}

fn watch(parameters: &Parameters, command: &str) -> Result<ExitCode, String> {
    let arguments =
        parameters.arguments(Stage::Inside, command).map_err(could_not("invalid arguments"))?;
    // The files stay open until bubblewrap has started and inherited them.
    let (mut inside, _files) = match parameters.level {
        Level::Full => bubblewrap::command(parameters)?,
        Level::Basic => (Command::new(OURSELVES), Vec::new()),
    };
    let mut child = inside
        .args(arguments)
        .env_clear()
        .stdin(Stdio::inherit())
        .spawn()
        .map_err(could_not("the second stage cannot be started"))?;
    let max_wait = Duration::from_millis(parameters.deadline_ms).saturating_add(KEEPER_DELAY);
    let outcome = wait(&child, Watch::ControlSocket, max_wait);
    if !outcome.map_err(could_not("the second stage cannot be watched"))? {
        terminate(&child, parameters.level);
        wait(&child, Watch::ChildAlone, GRACE)
            .map_err(could_not("the second stage cannot be watched"))?;
        // Kills all remaining processes. None may outlive the wait for the child.
        tree::kill_all();
    }
    let status = child.wait().map_err(could_not("the second stage cannot be awaited"))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// The events that end a wait, besides the child's end and the timeout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    ControlSocket,
    ChildAlone,
}

/// Waits, and returns true if the child ended first.
fn wait(child: &Child, watch: Watch, max_wait: Duration) -> io::Result<bool> {
    let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let control = io::stdin();
    let deadline = Instant::now().checked_add(max_wait);
    loop {
        let mut watched =
            vec![PollFd::new(&ended, PollFlags::IN), PollFd::new(&control, PollFlags::IN)];
        watched.truncate(if watch == Watch::ControlSocket { 2 } else { 1 });
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let is_ready = match poll(&mut watched, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            ready => ready? > 0,
        };
        let has_ended = watched.first().is_some_and(|child| !child.revents().is_empty());
        return Ok(is_ready && has_ended);
    }
}

/// Sends SIGTERM, so that a command can clean up. Bubblewrap itself does not get it: it would end
/// immediately and kill all processes in the sandbox.
fn terminate(child: &Child, level: Level) {
    let mut receivers = tree::descendants();
    receivers.retain(|pid| level == Level::Basic || *pid != Pid::from_child(child));
    tree::signal_all(&receivers, Signal::TERM);
}

/// The folder that replaces `/tmp` where there are no mounts.
struct Temporary(PathBuf);

impl Temporary {
    fn make() -> io::Result<Self> {
        let name = format!("twostep-{}-{:016x}", getpid().as_raw_nonzero(), fastrand::u64(..));
        let path = PathBuf::from("/tmp").join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A failure has no recipient any more, and the system cleans up /tmp.
        let _ = fs::remove_dir_all(&self.0);
    }
}
