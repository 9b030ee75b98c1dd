//! The crash test: kills, stops and cuts off the service at chosen and at random moments, and
//! checks that nothing accepted is lost, that no tool with effects runs twice by itself, and that
//! no session is left in a state that the model refuses.
//!
//! `make crash` runs it. Everything random follows from the seed that is printed first. `--help`
//! lists what can be changed.
#![cfg(test)]

mod approver;
mod arena;
mod args;
mod check;
mod client;
mod cluster;
mod hold;
#[path = "../support/kept_output.rs"]
mod kept_output;
mod load;
mod node;
mod output;
mod paid;
mod phases;
mod plans;
mod planted;
mod points;
mod proxy;
mod reader;
mod rebuild;
mod report;
mod takeover;
mod tally;
mod watch;
mod work;
mod world;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser as _;
use futures::FutureExt as _;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Args, Phase};
use crate::output::{note, say};
use crate::world::World;

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
    runtime.block_on(until_stopped(args, seed))
}

/// Plays everything. A signal ends it in order: dropping a process kills it.
async fn until_stopped(args: Args, seed: u64) -> anyhow::Result<bool> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        is_well = play(args, seed) => is_well,
        _ = terminate.recv() => anyhow::bail!("stopped"),
        _ = interrupt.recv() => anyhow::bail!("stopped"),
    }
}

async fn play(args: Args, seed: u64) -> anyhow::Result<bool> {
    let started = Instant::now();
    let world = World::new(args, seed).await?;
    if world.args.keep {
        note(&format!("logs are in {}", world.folder().display()));
    }
    let wants = |phase| world.args.wants(phase);
    // Those that mostly wait share the time with those that mostly work.
    let points = async {
        if wants(Phase::Points) {
            phases::points::play(&world).await;
            note(&format!("points: done after {:.0?}", started.elapsed()));
        }
    };
    let stops = async {
        if wants(Phase::Stops) {
            phases::stops::play(&world).await;
            note(&format!("stops: done after {:.0?}", started.elapsed()));
        }
    };
    tokio::join!(points.boxed_local(), stops.boxed_local());
    let proofs = async {
        if wants(Phase::Proofs) {
            phases::proofs::play(&world).await;
            note(&format!("proofs: done after {:.0?}", started.elapsed()));
        }
    };
    let kills = async {
        if wants(Phase::Kills) {
            phases::kills::play(&world).await;
            note(&format!("kills: done after {:.0?}", started.elapsed()));
        }
    };
    tokio::join!(proofs.boxed_local(), kills.boxed_local());
    let clocks = async {
        if wants(Phase::Clocks) {
            phases::clocks::play(&world).await;
        }
    };
    let restarts = story(&world, Phase::Restarts, phases::restarts::play(&world).boxed_local());
    let cuts = story(&world, Phase::Cuts, phases::cuts::play(&world).boxed_local());
    tokio::join!(clocks.boxed_local(), restarts, cuts);
    planted::logs(world.folder());
    let is_well = report::report(&world);
    say(&format!("{:.0} s", started.elapsed().as_secs_f64()));
    world.durable.stop().await?;
    world.fast.stop().await?;
    Ok(is_well)
}

/// One long story, which is a finding if it cannot be told.
async fn story(
    world: &World,
    phase: Phase,
    told: futures::future::LocalBoxFuture<'_, anyhow::Result<()>>,
) {
    if world.args.wants(phase) {
        let name = format!("{phase:?}");
        world.play(1, vec![(name.clone(), told)]).await;
        note(&format!("{name}: done"));
    }
}
