//! The load test: compares the service with a minimal hand-written one, the reference service.
//!
//! `cargo bench --bench load` starts a durable Postgres (or uses that of `DATABASE_URL`), the
//! simulator, the service and the reference service, each as a process on loopback. It posts turns to
//! both services in alternation and prints a table. `-- --help` lists the options.

mod client;
mod drive;
mod environment;
mod held;
mod history;
mod live;
mod measure;
mod output;
mod plan;
mod proc;
mod process;
mod profile;
mod reference;
mod report;
mod stack;
mod start;
mod stored;

use std::env;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser as _, Subcommand};
use mimalloc::MiMalloc;
use tokio::signal::unix::{SignalKind, signal};

use crate::measure::measure;
use crate::output::{note, say};
use crate::plan::{Args, Plan};
use crate::report::page::replace;
use crate::report::rows::{summary, table};
use crate::report::statements;
use crate::stack::Stack;

// The same allocator as in the service, for a fair comparison.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The subcommand that runs the reference service.
const REFERENCE: &str = "reference";
/// Concurrent turns under load.
const MANY: usize = 32;

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the reference service
    #[command(name = REFERENCE, hide = true)]
    Reference(reference::Options),
}

fn main() -> ExitCode {
    // `cargo test` also runs benchmarks, without `--bench`; then this program does nothing.
    let is_meant = |word: &str| word == "--bench" || word == REFERENCE || word == "--help";
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
    let command = args.command.take();
    let mut runtime = match command {
        Some(_) => tokio::runtime::Builder::new_multi_thread(),
        // One thread is enough for the clients.
        None => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build()?;
    runtime.block_on(async {
        match command {
            Some(Command::Reference(options)) => reference::serve(options).await,
            None => until_stopped(&Plan::new(args)).await,
        }
    })
}

/// Measures until done or until a signal arrives; dropping the processes kills them.
async fn until_stopped(plan: &Plan) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        done = Box::pin(measure_all(plan)) => done,
        _ = terminate.recv() => anyhow::bail!("stopped"),
        _ = interrupt.recv() => anyhow::bail!("stopped"),
    }
}

async fn measure_all(plan: &Plan) -> anyhow::Result<()> {
    environment::raise_open_files()?;
    note("starting Postgres, the simulator and the service");
    let stack = Stack::start(plan).await?;
    let (figures, profiles) = measure(plan, &stack).await?;
    let description = environment::describe(plan, &stack).await?;
    stack.stop().await?;
    let mut generated = vec![description, String::new()];
    generated.extend(table(&figures));
    let statements = if profiles.is_empty() {
        vec!["The time of each statement was not measured.".to_owned()]
    } else {
        statements::table(&profiles, &profile::sql_files()?)
    };
    for line in generated.iter().chain([&String::new()]).chain(&statements) {
        say(line);
    }
    say(&format!("\n{}: {}", environment::title().await, summary(&figures)));
    if let Some(path) = &plan.markdown {
        let page = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let page = replace(&page, "figures", &generated).map_err(anyhow::Error::msg)?;
        let page = replace(&page, "statements", &statements).map_err(anyhow::Error::msg)?;
        std::fs::write(path, page)?;
    }
    Ok(())
}
