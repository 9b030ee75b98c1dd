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

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use facts::{Attempt, Bubblewrap, Facts};
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

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Basic => "basic",
        })
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
    Start(#[source] std::io::Error),
    /// The helper could not make the surroundings. Nothing of the command has run.
    #[error("the sandbox could not be set up: {0}")]
    SetUp(String),
    /// What the helper needs to know does not fit into its arguments.
    #[error("the command is longer than {} bytes", job::MAX_COMMAND)]
    TooLong,
    /// An argument of a program ends at a NUL.
    #[error("the command has a NUL in it")]
    Nul,
    /// A private folder cannot hold this, a shared one must not.
    #[error(
        "the {0} level cannot keep commands from files that other programs run, and this \
         workspace is shared"
    )]
    Shared(Level),
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

/// A level that works on this machine.
#[derive(Debug, Clone)]
pub struct Sandbox {
    level: Level,
    helper: PathBuf,
}

impl Sandbox {
    /// The best of the levels that a setting allows, each tried by running a command in it. The
    /// folder is one that commands will be able to write to. None if Bash is off.
    pub async fn open(setting: Setting, folder: &Path) -> Result<Option<Self>, Unavailable> {
        Self::open_with(OURSELVES.into(), setting, folder).await
    }

    /// The same with another program as the helper, for tests.
    pub async fn open_with(
        helper: PathBuf,
        setting: Setting,
        folder: &Path,
    ) -> Result<Option<Self>, Unavailable> {
        let mut reasons = Vec::new();
        for level in setting.levels() {
            let sandbox = Self { level: *level, helper: helper.clone() };
            match sandbox.probe(folder).await {
                Ok(()) => return Ok(Some(sandbox)),
                Err(error) => reasons.push((*level, error)),
            }
        }
        if reasons.is_empty() { Ok(None) } else { Err(Unavailable(reasons)) }
    }

    /// The level in force.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Runs a command to its end, its deadline or the stop. All that it started is gone within a
    /// second after that, also when nobody waits for this any more or this process is killed.
    pub async fn run(
        &self,
        job: &Job<'_>,
        stop: &CancellationToken,
    ) -> Result<Outcome, SandboxError> {
        run::run(&self.helper, self.level, job, stop).await
    }

    /// Runs a command that does nothing.
    async fn probe(&self, folder: &Path) -> Result<(), SandboxError> {
        let job = Job { command: "exit 7", workspace: folder, protected: &[], deadline: PATIENCE };
        let outcome = self.run(&job, &CancellationToken::new()).await?;
        if outcome.ending == Ending::Exited(7) {
            return Ok(());
        }
        let said = outcome.output.stderr.text();
        Err(SandboxError::SetUp(format!("a first command ended as {:?} {said}", outcome.ending)))
    }
}
