//! The crash test: kills, pauses and disconnects the service at chosen and at random moments. It
//! checks that no accepted message is lost, that no tool with side effects is executed twice
//! without a request, and that the model accepts the history of every session.
//!
//! `make crash` runs it. The seed that is printed first determines all random choices. `--help`
//! lists the options.
#![cfg(test)]

mod approver;
mod args;
mod check;
mod client;
mod cluster;
mod conversations;
mod hold;
#[path = "../support/kept_output.rs"]
mod kept_output;
mod load;
mod model_calls;
mod node;
mod output;
mod phases;
mod planted;
mod points;
mod proxy;
mod reader;
mod rebuild;
mod report;
mod suite;
mod takeover;
mod tally;
mod testbed;
mod watch;
mod work;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser as _;
use futures::FutureExt as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Args, Phase};
use crate::output::{note, say};
use crate::suite::Suite;

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            note(&format!("crash: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> anyhow::Result<bool> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let seed = args.seed.unwrap_or_else(|| fastrand::u64(..));
    say(&format!("seed {seed}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run_until_stopped(args, seed))
}

/// Runs all phases. On a signal it returns early, which drops, and so kills, all processes.
async fn run_until_stopped(args: Args, seed: u64) -> anyhow::Result<bool> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        passed = run_phases(args, seed) => passed,
        _ = terminate.recv() => anyhow::bail!("stopped"),
        _ = interrupt.recv() => anyhow::bail!("stopped"),
    }
}

async fn run_phases(args: Args, seed: u64) -> anyhow::Result<bool> {
    let started = Instant::now();
    let suite = Suite::new(args, seed).await?;
    if suite.args.keep {
        note(&format!("logs are in {}", suite.folder().display()));
    }
    let includes = |phase| suite.args.includes(phase);
    // A phase that mostly waits runs at the same time as one that mostly computes.
    let points = async {
        if includes(Phase::Points) {
            phases::points::run(&suite).await;
            note(&format!("points: done after {:.0?}", started.elapsed()));
        }
    };
    let stops = async {
        if includes(Phase::Stops) {
            phases::stops::run(&suite).await;
            note(&format!("stops: done after {:.0?}", started.elapsed()));
        }
    };
    tokio::join!(points.boxed_local(), stops.boxed_local());
    let proofs = async {
        if includes(Phase::Proofs) {
            phases::proofs::run(&suite).await;
            note(&format!("proofs: done after {:.0?}", started.elapsed()));
        }
    };
    let kills = async {
        if includes(Phase::Kills) {
            phases::kills::run(&suite).await;
            note(&format!("kills: done after {:.0?}", started.elapsed()));
        }
    };
    tokio::join!(proofs.boxed_local(), kills.boxed_local());
    single_scenario(&suite, Phase::Crowd, phases::crowd::run(&suite).boxed_local()).await;
    let clocks = async {
        if includes(Phase::Clocks) {
            phases::clocks::run(&suite).await;
        }
    };
    let restarts =
        single_scenario(&suite, Phase::Restarts, phases::restarts::run(&suite).boxed_local());
    let cuts = single_scenario(&suite, Phase::Cuts, phases::cuts::run(&suite).boxed_local());
    tokio::join!(clocks.boxed_local(), restarts, cuts);
    planted::keep_logs(suite.folder());
    let passed = report::report(&suite);
    say(&format!("{:.0} s", started.elapsed().as_secs_f64()));
    suite.durable.stop().await?;
    suite.fast.stop().await?;
    Ok(passed)
}

/// Runs a phase that consists of one scenario. An error of the scenario is a violation.
async fn single_scenario(
    suite: &Suite,
    phase: Phase,
    scenario: futures::future::LocalBoxFuture<'_, anyhow::Result<()>>,
) {
    if suite.args.includes(phase) {
        let name = format!("{phase:?}");
        suite.run_scenarios(1, vec![(name.clone(), scenario)]).await;
        note(&format!("{name}: done"));
    }
}
