//! The helper: processes between the service and the command.

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

/// The word that leads here on the command line.
pub const COMMAND: &str = "__sandbox";
/// What the second stage says on the leash when nothing is left to do but to run the command.
pub(super) const READY: [u8; 1] = *b"r";
/// How long a command may take to end after it was told to.
pub(super) const GRACE: Duration = Duration::from_millis(400);
/// The status of a helper that failed before the command began.
const FAILED: u8 = 125;
/// Where the command's folder is at the full level.
const WORKSPACE: &str = "/workspace";

/// Which part of the way into the sandbox a process of the helper is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Stage {
    /// Outside: makes the surroundings and ends what ran in them.
    Keeper,
    /// Inside: gives up rights and becomes the shell.
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

/// What both stages need to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Surroundings {
    level: Level,
    workspace: PathBuf,
    /// Its device and inode.
    identity: (u64, u64),
    /// Those of the protected names, as they were when they were made sure of.
    protected_as: Vec<(u64, u64)>,
    /// At the basic level, the folder in place of `/tmp`.
    temporary: Option<PathBuf>,
    protected: Vec<String>,
    /// For a keeper whose service hangs.
    deadline_ms: u64,
}

impl Surroundings {
    pub(super) fn of(level: Level, job: &Job<'_>) -> Self {
        Self {
            level,
            workspace: job.workspace.to_owned(),
            identity: job.identity,
            protected_as: Vec::new(),
            temporary: None,
            protected: job.protected.iter().map(|name| (*name).to_owned()).collect(),
            deadline_ms: u64::try_from(job.deadline.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn arguments(&self, stage: Stage, command: &str) -> io::Result<[String; 4]> {
        let words = serde_json::to_string(self)?;
        Ok([COMMAND.to_owned(), stage.as_str().to_owned(), words, command.to_owned()])
    }

    /// The workspace as the command sees it.
    fn workspace(&self) -> &Path {
        match self.level {
            Level::Full => Path::new(WORKSPACE),
            Level::Basic => &self.workspace,
        }
    }

    /// The folder for what the command leaves behind, as it sees it.
    fn temporary(&self) -> &Path {
        self.temporary.as_deref().unwrap_or(Path::new("/tmp"))
    }
}

/// A stage of the helper. Why it failed, if it did, is on stderr, for whoever started it.
pub fn enter(stage: Stage, surroundings: &str, command: &str) -> Result<ExitCode, String> {
    let surroundings: Surroundings =
        serde_json::from_str(surroundings).map_err(|error| error.to_string())?;
    match stage {
        Stage::Keeper => keeper::keep(surroundings, command),
        Stage::Inside => Err(inside::become_shell(&surroundings, command)),
    }
}

/// The status of a helper that failed.
pub fn failed() -> ExitCode {
    ExitCode::from(FAILED)
}

/// An error and what was attempted.
fn could_not(what: &str) -> impl FnOnce(io::Error) -> String {
    move |error| format!("{what}: {error}")
}

/// Marks all that was inherited, so that no program after this one gets it.
fn give_nothing_on() {
    close_fds::set_fds_cloexec(3, &[]);
}
