//! A run on which worker after worker dies: it is given up, and its session goes on.

use std::sync::Arc;

use anyhow::ensure;

use crate::arena::{Arena, Setup};
use crate::hold::REACHED_WITHIN;
use crate::world::World;

/// Three takeovers are allowed to come to nothing.
const DEATHS: usize = 4;
const FAILPOINT: &str = "--failpoint=request-sent=abort";

pub(crate) async fn play(world: &World, name: &str) -> anyhow::Result<()> {
    let setup = Setup { faults: [vec![FAILPOINT.to_owned()], vec![]], ..Setup::default() };
    let arena = world.arena(name, &world.fast, setup).await?;
    arena.start(0).await?;
    let session = arena.session().await?;
    // The worker may die before the post is answered: then it is posted again.
    let (run, ()) = tokio::try_join!(arena.post(0, &session, "say.poison"), deaths(&arena))?;
    ensure!(arena.settled(&run, REACHED_WITHIN).await, "the run is not given up");
    ensure!(has_given_up(&arena).await?, "the run is not given up as a crash loop");
    arena.start(1).await?;
    arena.settle_and_check().await
}

async fn deaths(arena: &Arc<Arena>) -> anyhow::Result<()> {
    for death in 1..=DEATHS {
        ensure!(arena.has_died(0, REACHED_WITHIN).await, "death {death} did not come");
        std::fs::remove_file(arena.mark("request-sent", "hit"))?;
        if death < DEATHS {
            arena.arm(0, FAILPOINT);
        }
        arena.start(0).await?;
    }
    Ok(())
}

async fn has_given_up(arena: &Arc<Arena>) -> anyhow::Result<bool> {
    let given_up = "SELECT count(*) = 1 FROM runs WHERE outcome::text LIKE '%crash_loop%'";
    Ok(sqlx::query_scalar(given_up).fetch_one(&arena.pool).await?)
}
