//! The first stage: outside of the sandbox, alive as long as anything in it.

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
use super::{GRACE, Level, Stage, Surroundings, bubblewrap, could_not, give_nothing_on, tree};

/// Beyond the deadline, which the service keeps as long as it can.
const SERVICE_IS_LATE: Duration = Duration::from_secs(3);

/// Runs the command and waits for its end, or ends it when the service lets go of the leash.
pub(super) fn keep(mut surroundings: Surroundings, command: &str) -> Result<ExitCode, String> {
    give_nothing_on();
    // Whoever loses its parent in here becomes our child, and so does not get away.
    set_child_subreaper(Some(getpid())).map_err(|error| format!("no subreaper: {error}"))?;
    let _group = Group::join();
    let temporary = match surroundings.level {
        Level::Full => None,
        Level::Basic => Some(Temporary::make().map_err(could_not("no temporary folder"))?),
    };
    surroundings.temporary = temporary.as_ref().map(|folder| folder.0.clone());
    let placeholders = match surroundings.level {
        Level::Full => Some(Placeholders::put(&surroundings)?),
        Level::Basic => None,
    };
    if let Some(placeholders) = &placeholders {
        surroundings.protected_as = placeholders.identities();
    }
    let ended = watch(&surroundings, command);
    // In this order: nothing runs any more when the folders go.
    tree::end_all();
    drop((placeholders, temporary));
    ended
}

fn watch(surroundings: &Surroundings, command: &str) -> Result<ExitCode, String> {
    let arguments =
        surroundings.arguments(Stage::Inside, command).map_err(could_not("bad arguments"))?;
    // The files are open until bubblewrap has been started, which then has them.
    let (mut inside, _files) = match surroundings.level {
        Level::Full => bubblewrap::command(surroundings)?,
        Level::Basic => (Command::new(OURSELVES), Vec::new()),
    };
    let mut child = inside
        .args(arguments)
        .env_clear()
        .stdin(Stdio::inherit())
        .spawn()
        .map_err(could_not("it cannot be started"))?;
    let patience = Duration::from_millis(surroundings.deadline_ms).saturating_add(SERVICE_IS_LATE);
    let outcome = wait(&child, Watch::Leash, patience);
    if !outcome.map_err(could_not("it cannot be watched"))? {
        tell_to_end(&child, surroundings.level);
        wait(&child, Watch::ChildAlone, GRACE).map_err(could_not("it cannot be watched"))?;
        // What is left is ended without asking. It must not outlive the wait for the child.
        tree::kill_all();
    }
    let status = child.wait().map_err(could_not("it cannot be waited for"))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// What ends a wait, besides the child's end and the time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Watch {
    Leash,
    ChildAlone,
}

/// Whether the child ended before anything else did.
fn wait(child: &Child, watch: Watch, patience: Duration) -> io::Result<bool> {
    let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let leash = io::stdin();
    let deadline = Instant::now().checked_add(patience);
    loop {
        let mut watched =
            vec![PollFd::new(&ended, PollFlags::IN), PollFd::new(&leash, PollFlags::IN)];
        watched.truncate(if watch == Watch::Leash { 2 } else { 1 });
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

/// A command may have something to put away. Bubblewrap itself is not told: it would end at once,
/// and all that is in it by force.
fn tell_to_end(child: &Child, level: Level) {
    let mut told = tree::descendants();
    told.retain(|pid| level == Level::Basic || *pid != Pid::from_child(child));
    tree::signal_all(&told, Signal::TERM);
}

/// The folder that takes the place of `/tmp` where there are no mounts of our own.
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
        // Nobody is left to tell of a failure, and /tmp is swept by others.
        let _ = fs::remove_dir_all(&self.0);
    }
}
