//! The hidden command line options of fault injection.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::{Bug, Point};

/// The faults of a process. Only `config` reads these options.
#[derive(Debug, Clone, Args)]
pub struct FaultArgs {
    /// `NAME[@N]=abort|pause`: the action when a failpoint is reached for the N-th time
    #[arg(long, value_name = "FAILPOINT", requires = "faults_dir", hide = true)]
    pub(super) failpoint: Vec<Failpoint>,
    /// The folder of the mark files that show the reached failpoints
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(super) faults_dir: Option<PathBuf>,
    /// A defect to enable
    #[arg(long, value_enum, hide = true)]
    pub(super) bug: Vec<Bug>,
    /// Seconds by which the clock of this process is ahead
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0,
        allow_negative_numbers = true,
        hide = true
    )]
    pub(super) clock_skew: i64,
    /// The file to which the tools of the crash test write
    #[arg(long, value_name = "FILE", hide = true)]
    pub(super) witness: Option<PathBuf>,
}

/// A failpoint and its action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failpoint {
    pub(super) point: Point,
    /// The hit that triggers the action, from 1.
    pub(super) nth: u32,
    pub(super) action: Action,
}

/// The action at a failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Action {
    /// Kills the process.
    Abort,
    /// Waits until a mark file is removed.
    Pause,
}

impl FromStr for Failpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (place, action) = text.split_once('=').ok_or("an action is missing")?;
        let (name, nth) = place.split_once('@').unwrap_or((place, "1"));
        Ok(Self {
            point: Point::from_str(name, false)?,
            nth: nth.parse().map_err(|_| format!("{nth:?} is not a number"))?,
            action: Action::from_str(action, false)?,
        })
    }
}
