//! Kills while many runs are live. The next worker must claim all of them in time.

use std::time::{Duration, Instant};

use anyhow::ensure;
use tokio::time::sleep;

use crate::conversations::LONG_KINDS;
use crate::load::{Clients, Load};
use crate::output::note;
use crate::suite::Suite;
use crate::testbed::{Setup, Testbed};

/// A few sessions are between two runs at each moment.
const CLIENTS: Clients = Clients { sessions: 230, readers: 20, kinds: LONG_KINDS };
/// The number of live runs at each kill.
const LIVE_RUNS: i64 = 200;
/// The limit for the runs to be live, from the moment at which the number of suspects last fell: they
/// are executed a few at a time, for 12 s each, so 200 of them need minutes in total.
const LIVE_WITHIN: Duration = Duration::from_mins(1);

pub(crate) async fn run(suite: &Suite) -> anyhow::Result<()> {
    let name = "kills with many live runs";
    let mut rng = suite.rng(name);
    // One node must be able to execute the runs of both.
    let slots = || vec!["--slots=256".to_owned()];
    let setup = Setup { faults: [slots(), slots()], ..Setup::default() };
    let testbed = suite.testbed(name, &suite.fast, setup).await?;
    testbed.start_all().await?;
    let load = Load::start(&testbed, CLIENTS, &mut rng).await?;
    for number in 1..=suite.args.crowd_kills {
        wait_until_live(&testbed).await?;
        let index = rng.usize(..2);
        testbed.kill(index).await?;
        // In one of two cases the other node claims the runs of the dead one.
        if rng.bool() {
            wait_until_live(&testbed).await?;
        }
        testbed.start(index).await?;
        note(&format!("{name}: {number}"));
    }
    load.finish_within(SETTLED_WITHIN).await
}

/// The limit for the runs to settle: several of 12 seconds may be in the queue of a session.
const SETTLED_WITHIN: Duration = Duration::from_mins(2);

/// Waits until workers hold `LIVE_RUNS` runs: not only leases that a dead worker has left. Waits also
/// until the suspects of earlier kills have progressed: they would hold up their sessions for minutes.
async fn wait_until_live(testbed: &Testbed) -> anyhow::Result<()> {
    let mut previous = 0;
    let mut deadline = Instant::now() + LIVE_WITHIN;
    let owners: Vec<usize> = (0..2).filter(|&index| testbed.address(index).is_some()).collect();
    loop {
        let (live, suspects) = (testbed.live_runs(&owners).await?, testbed.suspects().await?);
        if live >= LIVE_RUNS && suspects == 0 {
            return Ok(());
        }
        if suspects < previous {
            deadline = Instant::now() + LIVE_WITHIN;
        }
        previous = suspects;
        ensure!(Instant::now() < deadline, "{live} runs are live, {suspects} are suspects");
        sleep(Duration::from_millis(100)).await;
    }
}
