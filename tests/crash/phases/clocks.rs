//! Nodes whose clocks are an hour ahead or behind: nobody may take anything from anybody.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::process::Command;
use tokio::time::sleep;

use crate::arena::Setup;
use crate::load::Load;
use crate::output::say;
use crate::world::World;

const HOUR: i64 = 3600;
const SESSIONS: usize = 3;
/// Longer than a lease.
const WATCHED: Duration = Duration::from_secs(16);

pub(crate) async fn play(world: &World) {
    if library().is_none() {
        say("clocks: not tried, because libfaketime is not installed");
        return;
    }
    let stories = [("a clock ahead", HOUR), ("a clock behind", -HOUR)]
        .map(|(name, seconds)| (name.to_owned(), one(world, name, seconds).boxed_local()));
    world.play(2, stories.into()).await;
}

async fn one(world: &World, name: &str, seconds: i64) -> anyhow::Result<()> {
    let setup = Setup { clocks: [None, Some(seconds)], ..Setup::default() };
    let arena = world.arena(name, &world.fast, setup).await?;
    arena.start_all().await?;
    let load = Load::start(&arena, SESSIONS, &mut world.rng(name)).await?;
    // What is taken over here was taken from somebody who lives.
    sleep(WATCHED).await;
    arena.tally.wrong_clocks.add(1);
    load.finish().await
}

/// Gives a program a clock that is this much ahead.
pub(crate) fn set_clock(command: &mut Command, seconds: i64) {
    if let Some(library) = library() {
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME", format!("{seconds:+}s"))
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}

fn library() -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64"];
    let library = |folder: &str| Path::new(folder).join("faketime/libfaketime.so.1");
    folders.into_iter().map(library).find(|library| library.exists())
}
