//! A fault at every point.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use futures::FutureExt as _;
use futures::future::try_join_all;
use rustix::process::Signal;
use sqlx::Executor as _;

use crate::hold::{Commit, HeldBackend, Hold, REACHED_WITHIN, wait_for_failpoint};
use crate::phases::poison;
use crate::phases::stops::pause_node;
use crate::points::{CASES, Case, Location, QUEUED_CLAIM, TAKEOVER};
use crate::suite::Suite;
use crate::testbed::{NodeEvent, Setup, Testbed};
use crate::work::{Posts, expire_leases, wait_until_working};

/// A fault at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The process is killed.
    Kill,
    /// The connections of the process to the database are cut.
    Disconnect,
    /// The process is paused until its runs have been taken over.
    Stop,
}

/// Runs all cases with all their faults.
pub(crate) async fn run(suite: &Suite) {
    let is_selected = |name: &str| name.contains(&suite.args.case);
    let mut scenarios = Vec::new();
    // The longest first.
    for fault in [Fault::Stop, Fault::Kill, Fault::Disconnect] {
        for case in CASES {
            let name = format!("{} {fault:?}", case.name());
            if is_selected(&name) && case.is_tested_with(fault) {
                scenarios
                    .push((name.clone(), run_scenario(suite, name, case, fault).boxed_local()));
            }
        }
    }
    let poison = "a run that kills its workers";
    if is_selected(poison) {
        scenarios.push((poison.to_owned(), poison::run(suite, poison).boxed_local()));
    }
    suite.run_scenarios(suite.args.at_a_time, scenarios).await;
    let important: Vec<Case> = CASES.into_iter().filter(|case| case.is_important).collect();
    // At most 4 at once, because the number of connections of the server is limited.
    let parts = important.chunks(4).enumerate().map(|(number, cases)| {
        (format!("important points {number}, Postgres"), postgres(suite, cases).boxed_local())
    });
    suite.run_scenarios(1, parts.filter(|(name, _)| is_selected(name)).collect()).await;
}

impl Case {
    fn is_tested_with(&self, fault: Fault) -> bool {
        match fault {
            Fault::Kill => true,
            Fault::Disconnect => !matches!(self.location, Location::Drain),
            Fault::Stop => self.is_important,
        }
    }
}

async fn run_scenario(suite: &Suite, name: String, case: Case, fault: Fault) -> anyhow::Result<()> {
    let scenario = Scenario { suite, name, case, fault };
    match case.location {
        Location::Code(point, nth) => scenario.in_code(point, nth).await,
        Location::Commit(commit) => scenario.in_commit(commit, 1).await,
        Location::QueuedClaim => scenario.in_commit(QUEUED_CLAIM, 2).await,
        Location::Sweep => scenario.in_sweep().await,
        Location::Drain => scenario.in_drain().await,
        Location::Migration => scenario.in_migration().await,
    }
}

struct Scenario<'a> {
    suite: &'a Suite,
    name: String,
    case: Case,
    fault: Fault,
}

impl Scenario<'_> {
    async fn testbed(&self, failpoint: Option<String>) -> anyhow::Result<Arc<Testbed>> {
        let faults = failpoint.map(|failpoint| format!("--failpoint={failpoint}"));
        let setup = Setup { faults: [faults.into_iter().collect(), vec![]], ..Setup::default() };
        self.suite.testbed(&self.name, &self.suite.fast, setup).await
    }

    async fn in_code(&self, point: &str, nth: u32) -> anyhow::Result<()> {
        let action = if self.fault == Fault::Kill { "abort" } else { "pause" };
        let testbed = self.testbed(Some(format!("{point}@{nth}={action}"))).await?;
        testbed.start(0).await?;
        // In one of three kills no other node runs until this one has restarted.
        let is_alone = self.fault == Fault::Kill && self.suite.rng(&self.name).u8(..3) == 0;
        if !is_alone {
            testbed.start(1).await?;
        }
        let posts = Posts::start(&testbed, self.case.kind, 1).await?;
        if self.fault == Fault::Kill {
            ensure!(testbed.has_died(0, REACHED_WITHIN).await, "{point} was not reached");
            ensure!(testbed.mark(point, "hit").exists(), "the node died at another point");
            return self.revive(&testbed, 0, posts).await;
        }
        let mark = wait_for_failpoint(&testbed, point, "pause").await?;
        if self.fault == Fault::Disconnect {
            testbed.disconnect(0).await?;
            std::fs::remove_file(mark)?;
        } else {
            pause_node(&testbed, 0, || Ok(std::fs::remove_file(mark)?)).await?;
        }
        self.finish(&testbed, posts).await
    }

    async fn in_commit(&self, commit: Commit, messages: usize) -> anyhow::Result<()> {
        let testbed = self.testbed(None).await?;
        testbed.start_all().await?;
        let hold = Hold::commit(&testbed.database, commit).await?;
        let posts = Posts::start(&testbed, self.case.kind, messages).await?;
        self.inject_fault(&testbed, hold, posts).await
    }

    /// Kills or disconnects the node that is held.
    async fn inject_fault(
        &self,
        testbed: &Arc<Testbed>,
        hold: Hold,
        posts: Posts,
    ) -> anyhow::Result<()> {
        let Some(HeldBackend { index, backend }) = hold.wait_until_held(&testbed.pool).await?
        else {
            bail!("the commit was not reached");
        };
        if self.fault == Fault::Kill {
            testbed.kill(index).await?;
            // Postgres commits although the client is dead.
            hold.release().await?;
            return self.revive(testbed, index, posts).await;
        }
        testbed.record(Some(index), NodeEvent::Disconnected);
        let terminate = sqlx::query("SELECT pg_terminate_backend($1)").bind(backend);
        terminate.execute(&testbed.pool).await?;
        testbed.tally.terminations.add(1);
        hold.release().await?;
        self.finish(testbed, posts).await
    }

    async fn in_sweep(&self) -> anyhow::Result<()> {
        let testbed = self.testbed(None).await?;
        testbed.start_all().await?;
        let posts = Posts::start(&testbed, self.case.kind, 1).await?;
        wait_until_working(&testbed, 0).await?;
        testbed.kill(0).await?;
        let hold = Hold::commit(&testbed.database, TAKEOVER).await?;
        expire_leases(&testbed).await?;
        self.inject_fault(&testbed, hold, posts).await
    }

    async fn in_drain(&self) -> anyhow::Result<()> {
        let testbed = self.testbed(Some("draining=abort".to_owned())).await?;
        testbed.start_all().await?;
        let posts = Posts::start(&testbed, self.case.kind, 1).await?;
        wait_until_working(&testbed, 0).await?;
        testbed.signal(0, Signal::TERM).await?;
        ensure!(testbed.has_died(0, REACHED_WITHIN).await, "the node did not exit");
        ensure!(testbed.mark("draining", "hit").exists(), "the node died at another point");
        self.revive(&testbed, 0, posts).await
    }

    async fn in_migration(&self) -> anyhow::Result<()> {
        let database = self.suite.fast.database(true).await?;
        let setup = Setup::default();
        let testbed =
            self.suite.testbed_on(&self.name, database.clone(), setup, &self.suite.tally).await?;
        let hold = Hold::migration(&database, "messages").await?;
        let node = testbed.spawn(0)?;
        let Some(held) = hold.wait_until_held(&testbed.pool).await? else {
            bail!("the migration was not reached");
        };
        if self.fault == Fault::Kill {
            node.kill().await?;
            testbed.tally.kills.add(1);
            hold.release().await?;
        } else {
            let terminate = sqlx::query("SELECT pg_terminate_backend($1)").bind(held.backend);
            terminate.execute(&testbed.pool).await?;
            hold.release().await?;
            drop(node);
        }
        testbed.start_all().await?;
        testbed.pool.execute(include_str!("../audit.sql")).await?;
        database.register_key(&testbed.pool).await?;
        let posts = Posts::start(&testbed, self.case.kind, 1).await?;
        self.finish(&testbed, posts).await
    }

    /// Starts the dead node again: at once, or after the other one has settled all runs. If the
    /// other one does not run, the restarted node must settle them alone.
    async fn revive(
        &self,
        testbed: &Arc<Testbed>,
        index: usize,
        mut posts: Posts,
    ) -> anyhow::Result<()> {
        let has_other = testbed.address(1 - index).is_some();
        let is_late = has_other && self.suite.rng(&self.name).bool();
        if !is_late {
            testbed.start(index).await?;
        }
        if is_late || !has_other {
            posts.accepted().await?;
            testbed.settle_within(Duration::from_mins(1)).await?;
            testbed.start(if is_late { index } else { 1 - index }).await?;
        }
        self.finish(testbed, posts).await
    }

    async fn finish(&self, testbed: &Arc<Testbed>, mut posts: Posts) -> anyhow::Result<()> {
        posts.accepted().await?;
        testbed.settle_and_check().await?;
        posts.end().await;
        testbed.tally.reached(self.case.point);
        Ok(())
    }
}

/// Crashes Postgres while one node of every testbed waits at a point.
async fn postgres(suite: &Suite, cases: &[Case]) -> anyhow::Result<()> {
    let scenarios: Vec<Scenario<'_>> = cases
        .iter()
        .map(|&case| Scenario {
            suite,
            name: format!("{} Postgres", case.name()),
            case,
            fault: Fault::Disconnect,
        })
        .collect();
    let waiting = try_join_all(scenarios.iter().map(async |scenario| {
        let Location::Code(point, nth) = scenario.case.location else {
            bail!("not a point in the code")
        };
        let fault = format!("--failpoint={point}@{nth}=pause");
        let setup = Setup { faults: [vec![fault], vec![]], ..Setup::default() };
        let testbed = suite.testbed(&scenario.name, &suite.durable, setup).await?;
        testbed.start_all().await?;
        let posts = Posts::start(&testbed, scenario.case.kind, 1).await?;
        let mark = wait_for_failpoint(&testbed, point, "pause").await?;
        Ok((testbed, posts, mark))
    }))
    .await?;
    for (testbed, _, _) in &waiting {
        testbed.record(None, NodeEvent::Disconnected);
    }
    suite.durable.crash().await?;
    suite.tally.restarts.add(1);
    let ends = scenarios.iter().zip(waiting).map(async |(scenario, (testbed, posts, mark))| {
        std::fs::remove_file(mark)?;
        scenario.finish(&testbed, posts).await
    });
    try_join_all(ends).await?;
    Ok(())
}
