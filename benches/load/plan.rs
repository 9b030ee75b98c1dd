//! The options of the load test, and what they amount to.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

use crate::Command;

/// Compares the service with a hand-written one
#[derive(Debug, Parser)]
#[command(name = "load")]
#[expect(clippy::struct_excessive_bools, reason = "they are flags of a command line")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Measure for about a minute: fewer turns, 200 live runs of 5 s, no long histories, no starts
    #[arg(long)]
    quick: bool,
    /// Number of turns of each server at 32 at a time; a quarter of it at one at a time. Each client
    /// ends its last session of ten turns [default: 9600, with --quick 2880]
    #[arg(long, value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    turns: Option<u32>,
    /// Number of rounds into which the turns are divided; the servers alternate, and the figures are
    /// medians of the rounds [default: 5, with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Number of streams to hold open; 0 skips this measurement
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=9000))]
    streams: u32,
    /// Numbers of runs that are live at the same time, separated by commas; 0 skips this measurement
    /// [default: 200,1000, with --quick 200]
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=9000))]
    live: Option<Vec<u32>>,
    /// Duration of the model's reply in a live run, in seconds [default: 20, with --quick 5]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=600))]
    live_seconds: Option<u32>,
    /// Compare an empty database with one that has this many sessions. A million takes 13 GB and 10
    /// minutes
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    stored: Option<u32>,
    /// Skip the reference service
    #[arg(long)]
    skip_reference: bool,
    /// Skip long histories
    #[arg(long)]
    skip_history: bool,
    /// Skip the start times
    #[arg(long)]
    skip_starts: bool,
    /// Skip the time of each statement
    #[arg(long)]
    skip_statements: bool,
    /// Replace the figures of this Markdown page
    #[arg(long, value_name = "PAGE")]
    markdown: Option<PathBuf>,
    /// The program to measure
    #[arg(long, default_value = env!("CARGO_BIN_EXE_twostep"))]
    service: PathBuf,
    /// Postgres server to use; its tables remain. Without it a server is started and removed
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// The folder of the `postgres` and `initdb` programs
    #[arg(long, env = "PG_BIN_DIR")]
    pg_bin_dir: Option<PathBuf>,
    /// The flag that `cargo bench` passes to every benchmark
    #[arg(long, hide = true)]
    bench: bool,
}

/// The measurements to make.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are flags of a command line")]
pub(crate) struct Plan {
    pub(crate) is_quick: bool,
    pub(crate) turns: u32,
    pub(crate) rounds: u32,
    pub(crate) streams: u32,
    pub(crate) live: Vec<u32>,
    /// The duration of the model's reply in a live run.
    pub(crate) slow_reply: Duration,
    pub(crate) stored: Option<u32>,
    pub(crate) has_reference: bool,
    pub(crate) has_history: bool,
    pub(crate) has_starts: bool,
    pub(crate) has_statements: bool,
    pub(crate) markdown: Option<PathBuf>,
    pub(crate) service: PathBuf,
    pub(crate) database_url: Option<String>,
    pub(crate) pg_bin_dir: Option<PathBuf>,
}

impl Plan {
    pub(crate) fn new(args: Args) -> Self {
        let by_default = |full, quick| if args.quick { quick } else { full };
        let live =
            args.live.unwrap_or_else(|| if args.quick { vec![200] } else { vec![200, 1000] });
        let seconds = args.live_seconds.unwrap_or(by_default(20, 5));
        Self {
            is_quick: args.quick,
            turns: args.turns.unwrap_or(by_default(9_600, 2_880)),
            rounds: args.rounds.unwrap_or(by_default(5, 3)),
            streams: args.streams,
            live: live.into_iter().filter(|runs| *runs > 0).collect(),
            slow_reply: Duration::from_secs(seconds.into()),
            stored: args.stored,
            has_reference: !args.skip_reference,
            has_history: !args.skip_history && !args.quick,
            has_starts: !args.skip_starts && !args.quick,
            has_statements: !args.skip_statements,
            markdown: args.markdown,
            service: args.service,
            database_url: args.database_url,
            pg_bin_dir: args.pg_bin_dir,
        }
    }

    /// The number of turns of a round at 32 at a time.
    pub(crate) fn turns_of_round(&self) -> u32 {
        self.turns / self.rounds
    }
}
