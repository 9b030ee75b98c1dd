//! Where commands of the model run: confined, or not at all.
//!
//! The service starts a helper, which is this same program. The helper's first stage (*keeper*)
//! makes the surroundings, watches over them and ends all that ran in them; its second stage
//! (*inside*) gives up what a command must not have and becomes the shell.

mod facts;
mod helper;
mod job;
mod output;
mod run;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, fs, io};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use facts::{Attempt, Bubblewrap, Facts};
pub use helper::drop_capabilities;
pub use helper::{COMMAND, Stage, enter, failed};
pub use job::{Ending, Job, Outcome};
pub use output::{Output, Stream};

/// The program itself, also when its file has been replaced since it was started.
const OURSELVES: &str = "/proc/self/exe";
/// What the attempt of a level may take. A machine that is busy is slow, not unfit.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much a command is cut off from the machine.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Namespaces of its own by bubblewrap, and what `basic` has.
    Full,
    /// Rules for files, signals and system calls; the namespaces are the machine's.
    Basic,
}

impl Level {
    /// The word for it.
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

/// What the operator says of Bash. There is no word for Bash without a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Setting {
    /// There is no Bash.
    #[default]
    Off,
    /// The best level that works here; without one the service does not start.
    Auto,
    /// This level, or the service does not start.
    Full,
    /// This level, or the service does not start.
    Basic,
}

impl Setting {
    /// The levels that would do, the best first.
    pub fn levels(self) -> &'static [Level] {
        match self {
            Self::Off => &[],
            Self::Auto => &[Level::Full, Level::Basic],
            Self::Full => &[Level::Full],
            Self::Basic => &[Level::Basic],
        }
    }
}

/// Why a command could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The helper is not there, or the machine has no room for another process.
    #[error("the sandbox's helper cannot be started: {0}")]
    Start(#[source] io::Error),
    /// The helper could not make the surroundings. Nothing of the command has run.
    #[error("the sandbox could not be set up: {0}")]
    SetUp(String),
    /// What the helper needs to know does not fit into its arguments.
    #[error("the command is longer than {} bytes", job::MAX_COMMAND)]
    TooLong,
    /// An argument of a program ends at a NUL.
    #[error("the command has a NUL in it")]
    Nul,
    /// Other programs use the workspace, and may run what a command leaves there.
    #[error(
        "at the basic level commands cannot be kept from files that other programs run, such as \
         .git/hooks, and this workspace is shared with other programs"
    )]
    Shared,
    /// It is not known which level works here.
    #[error("commands are not run by this process")]
    Closed,
}

/// None of the levels that would do works here. The service must not start.
#[derive(Debug, thiserror::Error)]
#[error(
    "Bash is asked for, and no sandbox works here: {}; `twostep doctor sandbox` says more",
    list(.0)
)]
pub struct Unavailable(Vec<(Level, SandboxError)>);

fn list(reasons: &[(Level, SandboxError)]) -> String {
    let reasons = reasons.iter().map(|(level, error)| format!("{level}: {error}"));
    reasons.collect::<Vec<_>>().join("; ")
}

/// Where commands run, once it has been found out which level works here.
#[derive(Debug, Clone)]
pub struct Sandbox {
    setting: Setting,
    helper: PathBuf,
    opened: Arc<OnceLock<Opened>>,
}

#[derive(Debug)]
struct Opened {
    level: Level,
    /// Beneath it are the folders that only their own sessions use.
    private: PathBuf,
}

impl Sandbox {
    /// What the operator asks for; none if that is nothing.
    pub fn new(setting: Setting) -> Option<Self> {
        Self::with_helper(setting, OURSELVES.into())
    }

    /// The same with another program as the helper, where this one is a test.
    pub fn with_helper(setting: Setting, helper: PathBuf) -> Option<Self> {
        let opened = Arc::default();
        (setting != Setting::Off).then_some(Self { setting, helper, opened })
    }

    /// Takes the best of the levels that would do, each tried by running a command in it.
    /// Beneath the folder are the workspaces that no other programs look into.
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

    /// The level in force; none before it was found out.
    pub fn level(&self) -> Option<Level> {
        self.opened.get().map(|opened| opened.level)
    }

    /// Runs a command to its end, its deadline or the stop. All that it started is gone within a
    /// second after that, also when nobody waits for this any more or this process is killed.
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
        run::run(&self.helper, *level, &Job { workspace: &workspace, ..*job }, stop).await
    }

    /// Runs a command that does nothing.
    async fn probe(&self, level: Level, folder: &Path) -> Result<PathBuf, SandboxError> {
        fs::create_dir_all(folder).map_err(SandboxError::Start)?;
        let folder = folder.canonicalize().map_err(SandboxError::Start)?;
        let identity = identity(&folder).map_err(SandboxError::Start)?;
        let (command, workspace, deadline) = ("exit 7", folder.as_path(), PATIENCE);
        let job = Job { command, workspace, identity, protected: &[], deadline };
        let outcome = run::run(&self.helper, level, &job, &CancellationToken::new()).await?;
        if outcome.ending == Ending::Exited(7) {
            return Ok(folder);
        }
        let said = outcome.output.stderr.text();
        Err(SandboxError::SetUp(format!("a first command: {:?} {said}", outcome.ending)))
    }
}

/// Which folder stands under a name: its device and inode.
pub fn identity(folder: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(folder)?;
    Ok((metadata.dev(), metadata.ino()))
}
