//! Kills at random moments, under load.

use std::time::Duration;

use tokio::time::sleep;

use crate::arena::Setup;
use crate::load::Load;
use crate::output::note;
use crate::world::World;

const SESSIONS: usize = 8;

pub(crate) async fn play(world: &World) -> anyhow::Result<()> {
    let mut rng = world.rng("kills");
    let arena = world.arena("random kills", &world.fast, Setup::default()).await?;
    arena.start_all().await?;
    let load = Load::start(&arena, SESSIONS, &mut rng).await?;
    for number in 1..=world.args.kills {
        sleep(Duration::from_millis(rng.u64(200..1600))).await;
        let seat = rng.usize(..2);
        arena.kill(seat).await?;
        // Mostly it is back at once, now and then the other one must do all the work.
        if rng.u8(..5) == 0 {
            sleep(Duration::from_millis(rng.u64(200..3000))).await;
        }
        arena.start(seat).await?;
        if number % 10 == 0 {
            note(&format!("{number} kills"));
        }
    }
    load.finish().await
}
