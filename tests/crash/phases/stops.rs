//! Processes that are paused for three lease durations and then continue.

use std::time::Duration;

use futures::FutureExt as _;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::load::{Clients, Load};
use crate::suite::Suite;
use crate::testbed::{NodeEvent, Setup, Testbed};

const SESSIONS: usize = 3;
const TESTBEDS: u32 = 5;
/// A lease lasts 12 s.
const THREE_LEASES: Duration = Duration::from_secs(36);

pub(crate) async fn run(suite: &Suite) {
    let scenarios = (0..TESTBEDS.min(suite.args.stops)).map(|number| {
        let stops = suite.args.stops / TESTBEDS + u32::from(number < suite.args.stops % TESTBEDS);
        let name = format!("stops {number}");
        (name.clone(), run_scenario(suite, name, stops).boxed_local())
    });
    suite.run_scenarios(usize::MAX, scenarios.collect()).await;
}

async fn run_scenario(suite: &Suite, name: String, stops: u32) -> anyhow::Result<()> {
    let mut rng = suite.rng(&name);
    let testbed = suite.testbed(&name, &suite.fast, Setup::default()).await?;
    testbed.start_all().await?;
    let load = Load::start(&testbed, Clients::mixed(SESSIONS), &mut rng).await?;
    for _ in 0..stops {
        sleep(Duration::from_millis(rng.u64(300..1500))).await;
        pause_node(&testbed, rng.usize(..2), || Ok(())).await?;
    }
    load.finish().await
}

/// Pauses a node for three lease durations and executes `meanwhile` during the pause.
pub(crate) async fn pause_node(
    testbed: &Testbed,
    index: usize,
    meanwhile: impl FnOnce() -> anyhow::Result<()> + Send,
) -> anyhow::Result<()> {
    testbed.record(Some(index), NodeEvent::Stopped);
    testbed.signal(index, Signal::STOP).await?;
    testbed.tally.stops.add(1);
    meanwhile()?;
    sleep(THREE_LEASES).await;
    testbed.signal(index, Signal::CONT).await
}
