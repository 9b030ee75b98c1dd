//! The load test: compares the service with a minimal hand-written one.
//!
//! `cargo bench --bench load` starts a durable Postgres (or uses that of `DATABASE_URL`), the
//! simulator, the service and the floor, each as a process on loopback. It posts turns to both
//! services in alternation and prints a table. `-- --help` lists the options.

mod client;
mod drive;
mod floor;
mod held;
mod history;
mod output;
mod proc;
mod process;
mod report;
mod stack;
mod start;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use mimalloc::MiMalloc;
use tokio::signal::unix::{SignalKind, signal};

use crate::drive::drive;
use crate::history::{LENGTHS, by_history};
use crate::output::{note, say};
use crate::process::Process;
use crate::report::{Figures, Loads, table};
use crate::stack::Stack;
use crate::start::starts;

// The same allocator as in the service, for a fair comparison.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The subcommand that runs the floor.
const FLOOR: &str = "floor";
/// Concurrent turns under load.
const MANY: usize = 32;
/// The divisor for the number of sequential turns, relative to those under load.
const ONE_IN: usize = 4;
/// Turns before the first measurement.
const WARM_UP: usize = 128;

/// Compares the service with a hand-written one
#[derive(Debug, Parser)]
#[command(name = "load")]
#[expect(clippy::struct_excessive_bools, reason = "they are flags of a command line")]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Number of turns of each server under load
    #[arg(long, default_value_t = 8000, value_parser = clap::value_parser!(u32).range(64..=1_000_000))]
    turns: u32,
    /// Number of rounds into which the turns are divided; the servers alternate, to average out noise
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Number of streams to hold open; 0 skips this measurement
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(0..=9000))]
    streams: u32,
    /// Skip the hand-written service
    #[arg(long)]
    skip_floor: bool,
    /// Skip long histories
    #[arg(long)]
    skip_history: bool,
    /// Skip the start times
    #[arg(long)]
    skip_starts: bool,
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

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the hand-written service
    #[command(name = FLOOR, hide = true)]
    Floor(floor::Options),
}

fn main() -> ExitCode {
    // `cargo test` also runs benchmarks, without `--bench`; then this program does nothing.
    let is_meant = |word: &str| word == "--bench" || word == FLOOR || word == "--help";
    let mut words = env::args().skip(1);
    if !words.any(|word| is_meant(&word)) || env::args().any(|word| word == "--test") {
        return ExitCode::SUCCESS;
    }
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("load: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(mut args: Args) -> anyhow::Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut runtime = match args.command {
        Some(_) => tokio::runtime::Builder::new_multi_thread(),
        // One thread is enough for the clients.
        None => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(async {
        match args.command.take() {
            Some(Command::Floor(options)) => floor::serve(options).await,
            None => until_stopped(&args).await,
        }
    })
}

/// Measures until done or until a signal arrives; dropping the processes kills them.
async fn until_stopped(args: &Args) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        done = measure_all(args) => done,
        _ = terminate.recv() => anyhow::bail!("stopped"),
        _ = interrupt.recv() => anyhow::bail!("stopped"),
    }
}

async fn measure_all(args: &Args) -> anyhow::Result<()> {
    held::raise_open_files()?;
    note("starting Postgres, the simulator and the service");
    let stack = Stack::start(args).await?;
    let figures = Box::pin(figures(args, &stack)).await?;
    stack.stop().await?;
    let cores = std::thread::available_parallelism()?;
    say(&format!(
        "{cores} cores, shared by the servers, Postgres, the simulator and the clients; \
         {} turns each in {} rounds; fsync on.\n",
        args.turns, args.rounds
    ));
    for row in table(&figures) {
        say(&row);
    }
    Ok(())
}

async fn figures(args: &Args, stack: &Stack) -> anyhow::Result<Figures> {
    let mut figures = Figures::default();
    let service = stack.start_service().await?;
    let floor = if args.skip_floor { None } else { Some(stack.start_floor().await?) };
    let mut loads = Loads::default();
    for server in floor.iter().chain([&service]) {
        drive(stack, server, MANY, WARM_UP).await?;
    }
    for round in 1..=args.rounds {
        note(&format!("round {round} of {}", args.rounds));
        if let Some(floor) = &floor {
            load(args, stack, floor, &mut loads).await?;
        }
        load(args, stack, &service, &mut figures.service).await?;
    }
    if let Some(floor) = floor {
        floor.stop().await?;
        figures.floor = Some(loads);
    }
    if !args.skip_history {
        for length in LENGTHS {
            note(&format!("histories of {length} messages"));
            let sessions = if length > 1_000 { 3 } else { 20 };
            let sample = by_history(stack, &service, length, sessions).await?;
            figures.histories.push(sample);
        }
    }
    service.stop().await?;
    if args.streams > 0 {
        note(&format!("{} held streams", args.streams));
        let service = stack.start_service().await?;
        let bytes = held::held(stack, &service, args.streams).await?;
        figures.held = Some((args.streams, bytes));
        service.stop().await?;
    }
    if !args.skip_starts {
        note("starts");
        figures.starts = Some(starts(stack).await?);
    }
    Ok(figures)
}

/// Measures one server in one round.
async fn load(
    args: &Args,
    stack: &Stack,
    server: &Process,
    loads: &mut Loads,
) -> anyhow::Result<()> {
    let turns = usize::try_from(args.turns / args.rounds)?;
    loads.one.add(drive(stack, server, 1, turns / ONE_IN).await?);
    loads.many.add(drive(stack, server, MANY, turns).await?);
    Ok(())
}
