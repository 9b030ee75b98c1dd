//! Crashes of Postgres, under load. The service must stay, and go on.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::arena::{Arena, Deed, Setup};
use crate::load::Load;
use crate::node::Node;
use crate::world::World;

const SESSIONS: usize = 6;
/// The time that the service may take to go on, once the database answers.
const GOES_ON_WITHIN: Duration = Duration::from_secs(5);

pub(crate) async fn play(world: &World) -> anyhow::Result<()> {
    let mut rng = world.rng("restarts");
    let arena = world.arena("restarts of Postgres", &world.durable, Setup::default()).await?;
    arena.start_all().await?;
    let load = Load::start(&arena, SESSIONS, &mut rng).await?;
    for _ in 0..world.args.pg_restarts {
        sleep(Duration::from_millis(rng.u64(800..2500))).await;
        arena.note(None, Deed::Disconnected);
        world.durable.crash().await?;
        world.tally.restarts.add(1);
        let before = last_settled(&arena).await?;
        let answered = Instant::now();
        while last_settled(&arena).await? == before && answered.elapsed() < 4 * GOES_ON_WITHIN {
            sleep(Duration::from_millis(20)).await;
        }
        world.tally.after_postgres.add(answered.elapsed());
        if answered.elapsed() > GOES_ON_WITHIN {
            arena.red(&format!("no run settled for {:.1?} after a restart", answered.elapsed()));
        }
        for seat in &arena.seats {
            if seat.node.lock().await.as_mut().is_none_or(Node::has_ended) {
                arena.red("a node ended with the database");
            }
        }
    }
    load.finish().await
}

/// How many runs have settled.
async fn last_settled(arena: &Arena) -> anyhow::Result<i64> {
    let count = "SELECT count(*) FROM runs WHERE finished_at IS NOT NULL";
    Ok(sqlx::query_scalar(count).fetch_one(&arena.pool).await?)
}
