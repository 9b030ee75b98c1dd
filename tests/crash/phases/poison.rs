//! A run that kills every worker that executes it: it fails as a crash loop, and its session
//! continues.

use std::sync::Arc;

use anyhow::ensure;

use crate::hold::REACHED_WITHIN;
use crate::suite::Suite;
use crate::testbed::{Setup, Testbed};

/// The run fails after this number of deaths without progress.
const DEATHS: usize = 7;
const FAILPOINT: &str = "--failpoint=request-sent=abort";

pub(crate) async fn run(suite: &Suite, name: &str) -> anyhow::Result<()> {
    let setup = Setup { faults: [vec![FAILPOINT.to_owned()], vec![]], ..Setup::default() };
    let testbed = suite.testbed(name, &suite.fast, setup).await?;
    testbed.start(0).await?;
    let session = testbed.session().await?;
    // The worker may die before it answers the request, which is then repeated.
    let (run, ()) = tokio::try_join!(testbed.post(0, &session, "say.poison"), deaths(&testbed))?;
    ensure!(testbed.settled(&run, REACHED_WITHIN).await, "the run does not settle");
    ensure!(has_failed_as_crash_loop(&testbed).await?, "the run does not fail as a crash loop");
    testbed.start(1).await?;
    testbed.settle_and_check().await
}

async fn deaths(testbed: &Arc<Testbed>) -> anyhow::Result<()> {
    for death in 1..=DEATHS {
        ensure!(
            testbed.has_died(0, REACHED_WITHIN).await,
            "the node did not die for the {death}. time"
        );
        std::fs::remove_file(testbed.mark("request-sent", "hit"))?;
        if death < DEATHS {
            testbed.arm(0, FAILPOINT);
        }
        testbed.start(0).await?;
    }
    Ok(())
}

async fn has_failed_as_crash_loop(testbed: &Arc<Testbed>) -> anyhow::Result<bool> {
    let failed = "SELECT count(*) = 1 FROM runs WHERE outcome::text LIKE '%crash_loop%'";
    Ok(sqlx::query_scalar(failed).fetch_one(&testbed.pool).await?)
}
