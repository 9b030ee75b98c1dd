//! Kills at random moments, under load.

use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::sleep;

use crate::load::{Clients, Load};
use crate::output::note;
use crate::suite::Suite;
use crate::testbed::Setup;

/// Sessions of the nodes that both accept messages and execute runs.
const SESSIONS: usize = 8;
/// Sessions of the pair of which one node accepts messages and the other executes runs.
const SPLIT_SESSIONS: usize = 3;

pub(crate) async fn run(suite: &Suite) {
    // A fifth of all kills.
    let split = suite.args.kills / 5;
    let combined = Setup::default();
    let separate = Setup { is_split: true, ..Setup::default() };
    let scenarios = [
        ("random kills", combined, SESSIONS, suite.args.kills - split),
        ("random kills, separate roles", separate, SPLIT_SESSIONS, split),
    ];
    let scenarios = scenarios.map(|(name, setup, sessions, kills)| {
        (name.to_owned(), run_scenario(suite, name, setup, sessions, kills).boxed_local())
    });
    suite.run_scenarios(2, scenarios.into()).await;
}

async fn run_scenario(
    suite: &Suite,
    name: &str,
    setup: Setup,
    sessions: usize,
    kills: u32,
) -> anyhow::Result<()> {
    let mut rng = suite.rng(name);
    let testbed = suite.testbed(name, &suite.fast, setup).await?;
    testbed.start_all().await?;
    let load = Load::start(&testbed, Clients::mixed(sessions), &mut rng).await?;
    for number in 1..=kills {
        sleep(Duration::from_millis(rng.u64(200..1600))).await;
        let index = rng.usize(..2);
        testbed.kill(index).await?;
        // In one of five cases the other node is alone for a while.
        if rng.u8(..5) == 0 {
            sleep(Duration::from_millis(rng.u64(200..3000))).await;
        }
        testbed.start(index).await?;
        if number % 10 == 0 {
            note(&format!("{name}: {number}"));
        }
    }
    load.finish().await
}
