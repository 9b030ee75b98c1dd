//! The options of the crash test.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Kills the service at chosen and at random moments, and checks the stored state
#[derive(Debug, Clone, Parser)]
#[command(name = "crash")]
pub(crate) struct Args {
    /// Seed of all random choices [default: random]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Number of random kills under load
    #[arg(long, default_value_t = 50)]
    pub(crate) kills: u32,
    /// Number of kills while 200 runs are live
    #[arg(long, default_value_t = 6)]
    pub(crate) crowd_kills: u32,
    /// Number of crashes and restarts of Postgres under load
    #[arg(long, default_value_t = 10)]
    pub(crate) pg_restarts: u32,
    /// Number of times that a process is paused for three lease durations
    #[arg(long, default_value_t = 10)]
    pub(crate) stops: u32,
    /// Number of connections to cut during a commit
    #[arg(long, default_value_t = 200)]
    pub(crate) cuts: u32,
    /// Run only this phase; may be repeated
    #[arg(long, value_enum)]
    pub(crate) only: Vec<Phase>,
    /// Run only the cases of `points` and `proofs` whose name contains this text
    #[arg(long, default_value = "")]
    pub(crate) case: String,
    /// Maximum number of cases that run at the same time
    #[arg(long, default_value_t = 12)]
    pub(crate) at_a_time: usize,
    /// Keep the folder with the logs
    #[arg(long)]
    pub(crate) keep: bool,
    /// The folder of the `postgres` and `initdb` programs
    #[arg(long, env = "PG_BIN_DIR")]
    pub(crate) pg_bin_dir: Option<PathBuf>,
}

/// A part of the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Phase {
    /// A fault at every point.
    Points,
    /// Kills at random moments.
    Kills,
    /// Kills while 200 runs are live.
    Crowd,
    /// Restarts of Postgres.
    Restarts,
    /// Processes that are paused.
    Stops,
    /// Clocks that are wrong.
    Clocks,
    /// Connections cut in the middle of a commit.
    Cuts,
    /// Deliberate defects that must be detected.
    Proofs,
}

impl Args {
    /// Returns whether the options include a phase.
    pub(crate) fn includes(&self, phase: Phase) -> bool {
        self.only.is_empty() || self.only.contains(&phase)
    }
}
