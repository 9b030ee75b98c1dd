//! Crashes of Postgres under load. The service must stay alive and continue.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::load::{Clients, Load};
use crate::node::Node;
use crate::suite::Suite;
use crate::testbed::{NodeEvent, Setup, Testbed};

const SESSIONS: usize = 6;
/// The limit for a run to settle after the database answers again.
const RECOVERED_WITHIN: Duration = Duration::from_secs(5);

pub(crate) async fn run(suite: &Suite) -> anyhow::Result<()> {
    let mut rng = suite.rng("restarts");
    let testbed = suite.testbed("restarts of Postgres", &suite.durable, Setup::default()).await?;
    testbed.start_all().await?;
    let load = Load::start(&testbed, Clients::mixed(SESSIONS), &mut rng).await?;
    for _ in 0..suite.args.pg_restarts {
        sleep(Duration::from_millis(rng.u64(800..2500))).await;
        testbed.record(None, NodeEvent::Disconnected);
        suite.durable.crash().await?;
        suite.tally.restarts.add(1);
        let before = settled_runs(&testbed).await?;
        let answered = Instant::now();
        while settled_runs(&testbed).await? == before && answered.elapsed() < 4 * RECOVERED_WITHIN {
            sleep(Duration::from_millis(20)).await;
        }
        suite.tally.after_postgres.add(answered.elapsed());
        if answered.elapsed() > RECOVERED_WITHIN {
            testbed.violation(&format!(
                "no run settled for {:.1?} after a restart",
                answered.elapsed()
            ));
        }
        for node in &testbed.nodes {
            if node.process.lock().await.as_mut().is_none_or(Node::has_exited) {
                testbed.violation("a node exited because of the crash of the database");
            }
        }
    }
    load.finish().await
}

/// Returns the number of settled runs.
async fn settled_runs(testbed: &Testbed) -> anyhow::Result<i64> {
    let count = "SELECT count(*) FROM runs WHERE finished_at IS NOT NULL";
    Ok(sqlx::query_scalar(count).fetch_one(&testbed.pool).await?)
}
