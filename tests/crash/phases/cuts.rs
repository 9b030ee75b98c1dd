//! Connections that are cut in the middle of a commit, so that nobody knows whether it happened.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::arena::{Deed, Setup};
use crate::load::Load;
use crate::proxy::Proxy;
use crate::world::World;

const SESSIONS: usize = 6;
/// Of a thousand commits.
const CUT: u32 = 40;
/// For one cut; mostly there are two in a second.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) async fn play(world: &World) -> anyhow::Result<()> {
    let mut rng = world.rng("cuts");
    let database = world.fast.database(false).await?;
    let proxy = Arc::new(Proxy::start(&database.socket, rng.fork()).await?);
    let setup = Setup { proxies: [Some(proxy.port); 2], ..Setup::default() };
    let arena = world.arena_on("cuts", database, setup, &world.tally).await?;
    // Any of the nodes may be cut at any time.
    arena.note(None, Deed::Disconnected);
    arena.start_all().await?;
    let load = Load::start(&arena, SESSIONS, &mut rng).await?;
    let deadline = Instant::now() + PATIENCE * world.args.cuts;
    while proxy.cuts() < world.args.cuts && Instant::now() < deadline {
        proxy.cut_per_mille(CUT);
        sleep(Duration::from_millis(100)).await;
        arena.note(None, Deed::Disconnected);
    }
    proxy.cut_per_mille(0);
    world.tally.cuts.add(usize::try_from(proxy.cuts())?);
    if proxy.cuts() < world.args.cuts {
        arena.red(&format!("only {} commits were cut", proxy.cuts()));
    }
    load.finish().await
}
