//! The helper: the processes between the service and the command.

mod bubblewrap;
mod calls;
mod cgroup;
mod files;
mod inside;
mod keeper;
mod limits;
mod placeholders;
mod tree;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Job, Level};

pub(super) use bubblewrap::program as bubblewrap_program;
pub(super) use cgroup::can_limit as cgroup_can_limit;
pub(super) use files::abi as landlock_abi;
pub use limits::drop_capabilities;

/// The subcommand of the helper.
pub const COMMAND: &str = "__sandbox";
/// The byte that the second stage writes to the control socket directly before it runs the command.
pub(super) const READY: [u8; 1] = *b"r";
/// Time for a command to end after SIGTERM.
pub(super) const GRACE: Duration = Duration::from_millis(400);
/// The exit status of a helper that failed before the command started.
const FAILED: u8 = 125;
/// The path of the workspace at the full level.
const WORKSPACE: &str = "/workspace";

/// The stages of the helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Stage {
    /// Outside the sandbox: sets it up and ends the processes in it.
    Keeper,
    /// Inside the sandbox: drops privileges and becomes the shell.
    Inside,
}

impl Stage {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Keeper => "keeper",
            Self::Inside => "inside",
        }
    }
}

/// The parameters of both stages.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    level: Level,
    workspace: PathBuf,
    /// The device and inode of the workspace.
    identity: (u64, u64),
    /// The devices and inodes of the protected names, after the placeholders exist.
    protected_as: Vec<(u64, u64)>,
    /// The folder that replaces `/tmp` at the basic level.
    temporary: Option<PathBuf>,
    protected: Vec<String>,
    /// No other program uses the workspace, so no other user may read what a command creates there.
    is_private: bool,
    /// The deadline that the keeper enforces if the service hangs.
    deadline_ms: u64,
}

impl Parameters {
    pub(super) fn of(level: Level, job: &Job<'_>, is_private: bool) -> Self {
        Self {
            level,
            workspace: job.workspace.to_owned(),
            identity: job.identity,
            protected_as: Vec::new(),
            temporary: None,
            protected: job.protected.iter().map(|name| (*name).to_owned()).collect(),
            is_private,
            deadline_ms: u64::try_from(job.deadline.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn arguments(&self, stage: Stage, command: &str) -> io::Result<[String; 4]> {
        let words = serde_json::to_string(self)?;
        Ok([COMMAND.to_owned(), stage.as_str().to_owned(), words, command.to_owned()])
    }

    /// The path of the workspace for the command.
    fn workspace(&self) -> &Path {
        match self.level {
            Level::Full => Path::new(WORKSPACE),
            Level::Basic => &self.workspace,
        }
    }

    /// The path of the temporary folder for the command.
    fn temporary(&self) -> &Path {
        self.temporary.as_deref().unwrap_or(Path::new("/tmp"))
    }
}

/// Runs a stage of the helper. The reason of a failure goes to the stderr of the caller.
pub fn enter(stage: Stage, parameters: &str, command: &str) -> Result<ExitCode, String> {
    let parameters: Parameters =
        serde_json::from_str(parameters).map_err(|error| error.to_string())?;
    match stage {
        Stage::Keeper => keeper::keep(parameters, command),
        Stage::Inside => Err(inside::exec_shell(&parameters, command)),
    }
}

/// The exit status of a helper that failed.
pub fn failed() -> ExitCode {
    ExitCode::from(FAILED)
}

/// Adds the attempted operation to an error.
fn could_not(what: &str) -> impl FnOnce(io::Error) -> String {
    move |error| format!("{what}: {error}")
}

/// Marks all inherited descriptors as close-on-exec.
fn close_inherited_on_exec() {
    close_fds::set_fds_cloexec(3, &[]);
}
