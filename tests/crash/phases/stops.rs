//! Processes that stand still for three lives of a lease, and then go on as if nothing was.

use std::time::Duration;

use futures::FutureExt as _;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::arena::{Arena, Deed, Setup};
use crate::load::Load;
use crate::world::World;

const SESSIONS: usize = 3;
const ARENAS: u32 = 5;
/// A lease lives for 12 s.
const THREE_LIVES: Duration = Duration::from_secs(36);

pub(crate) async fn play(world: &World) {
    let stories = (0..ARENAS.min(world.args.stops)).map(|number| {
        let stops = world.args.stops / ARENAS + u32::from(number < world.args.stops % ARENAS);
        let name = format!("stops {number}");
        (name.clone(), one(world, name, stops).boxed_local())
    });
    world.play(usize::MAX, stories.collect()).await;
}

async fn one(world: &World, name: String, stops: u32) -> anyhow::Result<()> {
    let mut rng = world.rng(&name);
    let arena = world.arena(&name, &world.fast, Setup::default()).await?;
    arena.start_all().await?;
    let load = Load::start(&arena, SESSIONS, &mut rng).await?;
    for _ in 0..stops {
        sleep(Duration::from_millis(rng.u64(300..1500))).await;
        stand_still(&arena, rng.usize(..2), || Ok(())).await?;
    }
    load.finish().await
}

/// Stops a node for three lives of a lease; does something while it stands still.
pub(crate) async fn stand_still(
    arena: &Arena,
    seat: usize,
    meanwhile: impl FnOnce() -> anyhow::Result<()> + Send,
) -> anyhow::Result<()> {
    arena.note(Some(seat), Deed::Stopped);
    arena.signal(seat, Signal::STOP).await?;
    arena.tally.stops.add(1);
    meanwhile()?;
    sleep(THREE_LIVES).await;
    arena.signal(seat, Signal::CONT).await
}
