//! A sandbox for the shell commands of the model. Without a working sandbox no command runs.
//!
//! The service starts a helper, which is the same executable. The helper's first stage (*keeper*)
//! sets up the sandbox, supervises it and ends all processes in it. Its second stage (*inside*)
//! drops privileges and becomes the shell.

mod facts;
mod helper;
mod job;
mod output;
mod run;

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, fs, io};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use facts::{Bubblewrap, Facts, LevelTest};
use helper::Parameters;
pub use helper::drop_capabilities;
pub use helper::{COMMAND, Stage, enter, failed};
pub use job::{Ending, Job, Outcome};
pub use output::{Excerpt, Output, Stream};

/// The executable of this process, also when its file has been replaced since it was started.
const OURSELVES: &str = "/proc/self/exe";
/// Timeout of the test of a level. A busy machine can be slow and still support it.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The isolation of a command from the machine.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Namespaces by bubblewrap, in addition to the restrictions of `basic`.
    Full,
    /// Restrictions on files, signals and system calls, in the machine's own namespaces.
    Basic,
}

impl Level {
    /// The name of the level.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Basic => "basic",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The operator's setting for Bash. No value allows Bash without a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Setting {
    /// Bash is disabled.
    #[default]
    Off,
    /// The best level that this machine supports. The service does not start without one.
    Auto,
    /// The full level. The service does not start without it.
    Full,
    /// The basic level. The service does not start without it.
    Basic,
}

impl Setting {
    /// The acceptable levels, best first.
    pub fn levels(self) -> &'static [Level] {
        match self {
            Self::Off => &[],
            Self::Auto => &[Level::Full, Level::Basic],
            Self::Full => &[Level::Full],
            Self::Basic => &[Level::Basic],
        }
    }
}

/// The reason that a command could not run.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The helper is missing, or the machine cannot start another process.
    #[error("the sandbox's helper cannot be started: {0}")]
    Start(#[source] io::Error),
    /// The helper could not set up the sandbox. No part of the command has run.
    #[error("the sandbox cannot be set up: {0}")]
    SetUp(String),
    /// The parameters exceed the size of an argument.
    #[error("the command is longer than {} bytes", job::MAX_COMMAND)]
    TooLong,
    /// An argument of a program ends at a NUL.
    #[error("the command contains a NUL")]
    Nul,
    /// Other programs use the workspace and could run files that a command leaves there.
    #[error(
        "the basic level cannot protect files that other programs run, such as .git/hooks, from \
         commands, and this workspace is shared with other programs"
    )]
    Shared,
    /// [`Sandbox::open`] has not determined a level.
    #[error("this process runs no commands")]
    Closed,
}

/// This machine supports none of the acceptable levels. The service must not start.
#[derive(Debug, thiserror::Error)]
#[error(
    "Bash is enabled, and this machine supports no acceptable sandbox level: {}; \
     `twostep doctor sandbox` has details",
    list(.0)
)]
pub struct Unavailable(Vec<(Level, SandboxError)>);

fn list(reasons: &[(Level, SandboxError)]) -> String {
    let reasons = reasons.iter().map(|(level, error)| format!("{level}: {error}"));
    reasons.collect::<Vec<_>>().join("; ")
}

/// A sandbox. [`Sandbox::open`] determines its level.
#[derive(Debug, Clone)]
pub struct Sandbox {
    setting: Setting,
    helper: PathBuf,
    opened: Arc<OnceLock<Opened>>,
}

#[derive(Debug)]
struct Opened {
    level: Level,
    /// The folder of all workspaces that only their own sessions use.
    private: PathBuf,
}

impl Sandbox {
    /// Returns the sandbox for the operator's setting; `None` if Bash is off.
    pub fn new(setting: Setting) -> Option<Self> {
        Self::with_helper(setting, OURSELVES.into())
    }

    /// The same with another helper program, for tests, whose own executable is not the service.
    pub fn with_helper(setting: Setting, helper: PathBuf) -> Option<Self> {
        let opened = Arc::default();
        (setting != Setting::Off).then_some(Self { setting, helper, opened })
    }

    /// Selects the best acceptable level that can run a command. `private` is the folder of all
    /// workspaces that no other programs use.
    pub async fn open(&self, private: &Path) -> Result<Level, Unavailable> {
        let mut reasons = Vec::new();
        for level in self.setting.levels() {
            match self.probe(*level, private).await {
                Ok(private) => {
                    let opened = self.opened.get_or_init(|| Opened { level: *level, private });
                    return Ok(opened.level);
                }
                Err(error) => reasons.push((*level, error)),
            }
        }
        Err(Unavailable(reasons))
    }

    /// The selected level; `None` before [`Sandbox::open`].
    pub fn level(&self) -> Option<Level> {
        self.opened.get().map(|opened| opened.level)
    }

    /// Runs a command until its end, its deadline or `stop`. Within a second after that all its
    /// processes are gone, also when the future is dropped or this process is killed.
    pub async fn run(
        &self,
        job: &Job<'_>,
        stop: &CancellationToken,
    ) -> Result<Outcome, SandboxError> {
        let Opened { level, private } = self.opened.get().ok_or(SandboxError::Closed)?;
        let workspace = job.workspace.canonicalize().map_err(SandboxError::Start)?;
        if *level == Level::Basic && !workspace.starts_with(private) {
            return Err(SandboxError::Shared);
        }
        let is_private = workspace.starts_with(private);
        let job = Job { workspace: &workspace, ..*job };
        let parameters = Parameters::of(*level, &job, is_private);
        run::run(&self.helper, &parameters, &job, stop).await
    }

    /// Runs a command without effects.
    async fn probe(&self, level: Level, folder: &Path) -> Result<PathBuf, SandboxError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(SandboxError::Start)?;
        let folder = folder.canonicalize().map_err(SandboxError::Start)?;
        let identity = identity(&folder).map_err(SandboxError::Start)?;
        let (command, workspace, deadline) = ("exit 7", folder.as_path(), TEST_TIMEOUT);
        let job = Job { command, workspace, identity, protected: &[], deadline };
        let parameters = Parameters::of(level, &job, true);
        let outcome = run::run(&self.helper, &parameters, &job, &CancellationToken::new()).await?;
        if outcome.ending == Ending::Exited(7) {
            return Ok(folder);
        }
        let stderr = outcome.output.stderr.text();
        Err(SandboxError::SetUp(format!("a test command: {:?} {stderr}", outcome.ending)))
    }
}

/// Returns the identity of a folder: its device and inode.
pub fn identity(folder: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(folder)?;
    Ok((metadata.dev(), metadata.ino()))
}
