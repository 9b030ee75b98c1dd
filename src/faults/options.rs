//! The hidden part of the command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::{Bug, Point};

/// Which faults a process has in store. `config` is the one who reads it.
#[derive(Debug, Clone, Args)]
pub struct FaultArgs {
    /// `NAME[@N]=abort|pause`: what happens when a point is reached for the N-th time
    #[arg(long, value_name = "FAILPOINT", requires = "faults_dir", hide = true)]
    pub(super) failpoint: Vec<Failpoint>,
    /// The folder of the marks that tell which points were reached
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub(super) faults_dir: Option<PathBuf>,
    /// A defect
    #[arg(long, value_enum, hide = true)]
    pub(super) bug: Vec<Bug>,
    /// How far the clock of this process is ahead
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0,
        allow_negative_numbers = true,
        hide = true
    )]
    pub(super) clock_skew: i64,
    /// The file of the tools that leave a trace
    #[arg(long, value_name = "FILE", hide = true)]
    pub(super) witness: Option<PathBuf>,
}

/// What happens at a point, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failpoint {
    pub(super) point: Point,
    /// Counted from 1.
    pub(super) nth: u32,
    pub(super) action: Action,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Action {
    /// The process is killed.
    Abort,
    /// Whoever came here waits until a mark is removed.
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
