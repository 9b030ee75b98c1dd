//! Connections that are cut during a commit, so that the client does not know whether it succeeded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::load::{Clients, Load};
use crate::proxy::Proxy;
use crate::suite::Suite;
use crate::testbed::{NodeEvent, Setup};

const SESSIONS: usize = 6;
/// Commits that are cut, of a thousand.
const CUT_PER_MILLE: u32 = 40;
/// The limit per cut; two cuts per second are usual.
const LIMIT_PER_CUT: Duration = Duration::from_secs(2);

pub(crate) async fn run(suite: &Suite) -> anyhow::Result<()> {
    let mut rng = suite.rng("cuts");
    let database = suite.fast.database(false).await?;
    let proxy = Arc::new(Proxy::start(&database.socket, rng.fork()).await?);
    let setup = Setup { proxies: [Some(proxy.port); 2], ..Setup::default() };
    let testbed = suite.testbed_on("cuts", database, setup, &suite.tally).await?;
    // Both nodes may lose connections at any time.
    testbed.record(None, NodeEvent::Disconnected);
    testbed.start_all().await?;
    let load = Load::start(&testbed, Clients::mixed(SESSIONS), &mut rng).await?;
    let deadline = Instant::now() + LIMIT_PER_CUT * suite.args.cuts;
    while proxy.cuts() < suite.args.cuts && Instant::now() < deadline {
        proxy.cut_per_mille(CUT_PER_MILLE);
        sleep(Duration::from_millis(100)).await;
        testbed.record(None, NodeEvent::Disconnected);
    }
    proxy.cut_per_mille(0);
    suite.tally.cuts.add(usize::try_from(proxy.cuts())?);
    if proxy.cuts() < suite.args.cuts {
        testbed.violation(&format!("only {} commits were cut", proxy.cuts()));
    }
    load.finish().await
}
