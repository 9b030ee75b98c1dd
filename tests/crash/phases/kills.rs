//! Kills at random moments, under load.

use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::sleep;

use crate::arena::Setup;
use crate::load::Load;
use crate::output::note;
use crate::world::World;

/// Processes that do everything.
const SESSIONS: usize = 8;
/// One that accepts, and one that works.
const SPLIT_SESSIONS: usize = 3;

pub(crate) async fn play(world: &World) {
    // Of all kills, a fifth.
    let split = world.args.kills / 5;
    let alike = Setup::default();
    let apart = Setup { is_split: true, ..Setup::default() };
    let stories = [
        ("random kills", alike, SESSIONS, world.args.kills - split),
        ("random kills, apart", apart, SPLIT_SESSIONS, split),
    ];
    let stories = stories.map(|(name, setup, sessions, kills)| {
        (name.to_owned(), one(world, name, setup, sessions, kills).boxed_local())
    });
    world.play(2, stories.into()).await;
}

async fn one(
    world: &World,
    name: &str,
    setup: Setup,
    sessions: usize,
    kills: u32,
) -> anyhow::Result<()> {
    let mut rng = world.rng(name);
    let arena = world.arena(name, &world.fast, setup).await?;
    arena.start_all().await?;
    let load = Load::start(&arena, sessions, &mut rng).await?;
    for number in 1..=kills {
        sleep(Duration::from_millis(rng.u64(200..1600))).await;
        let seat = rng.usize(..2);
        arena.kill(seat).await?;
        // Mostly it is back at once, now and then the other one must do all the work.
        if rng.u8(..5) == 0 {
            sleep(Duration::from_millis(rng.u64(200..3000))).await;
        }
        arena.start(seat).await?;
        if number % 10 == 0 {
            note(&format!("{name}: {number}"));
        }
    }
    load.finish().await
}
