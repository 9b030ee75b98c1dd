//! What can be asked of the crash test.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Kills the service at chosen and at random moments, and looks at what is left
#[derive(Debug, Clone, Parser)]
#[command(name = "crash")]
pub(crate) struct Args {
    /// Everything random follows from it [default: another one each time]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Random kills under load
    #[arg(long, default_value_t = 50)]
    pub(crate) kills: u32,
    /// Restarts of Postgres without a shutdown, under load
    #[arg(long, default_value_t = 10)]
    pub(crate) pg_restarts: u32,
    /// Times that a process is stopped for three lives of a lease
    #[arg(long, default_value_t = 10)]
    pub(crate) stops: u32,
    /// Connections to cut in the middle of a commit
    #[arg(long, default_value_t = 200)]
    pub(crate) cuts: u32,
    /// Only this phase; may be repeated
    #[arg(long, value_enum)]
    pub(crate) only: Vec<Phase>,
    /// Only the cases whose name holds this, of the points and of the proofs
    #[arg(long, default_value = "")]
    pub(crate) case: String,
    /// Cases at a time
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
    /// Restarts of Postgres.
    Restarts,
    /// Processes that stand still.
    Stops,
    /// Clocks that are wrong.
    Clocks,
    /// Connections cut in the middle of a commit.
    Cuts,
    /// Defects that must be noticed.
    Proofs,
}

impl Args {
    /// Whether a phase is wanted.
    pub(crate) fn wants(&self, phase: Phase) -> bool {
        self.only.is_empty() || self.only.contains(&phase)
    }
}
