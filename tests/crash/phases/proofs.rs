//! Deliberate defects that the test must detect. Each scenario runs twice: without its defect there
//! must be no violation, with it the expected one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use futures::FutureExt as _;
use tokio::time::sleep;

use crate::hold::{REACHED_WITHIN, wait_for_failpoint};
use crate::output::say;
use crate::suite::Suite;
use crate::tally::Tally;
use crate::testbed::{Setup, Testbed};
use crate::work::{expire_leases, wait_until_working};

/// A deliberate defect and the violation that it must cause.
#[derive(Debug, Clone, Copy)]
struct Proof {
    bug: &'static str,
    /// A part of the text of the violation.
    reason: &'static str,
    /// The faults of the first node, with the defect and without.
    first: &'static [&'static str],
    /// Additional options of both nodes with the defect.
    more: &'static [&'static str],
    scenario: Scenario,
}

/// The scenario of a proof.
#[derive(Debug, Clone, Copy)]
enum Scenario {
    Zombie,
    Death,
    Bystander,
}

const PROOFS: [Proof; 5] = [
    Proof {
        bug: "no_attempt_check",
        reason: "which it did not hold",
        // Its only slot is occupied, so that it does not claim its own run again.
        first: &["--failpoint=heartbeat=pause", "--failpoint=reply-read=pause", "--slots=1"],
        more: &["--bug=no_attempt_check"],
        scenario: Scenario::Zombie,
    },
    Proof {
        bug: "no_started",
        reason: "ran 2 times",
        first: &["--failpoint=call-ended=abort"],
        more: &["--bug=no_started"],
        scenario: Scenario::Death,
    },
    Proof {
        bug: "split_commit",
        reason: "every call has its ledger row",
        // Without the defect only the second point exists, at the end of the same step.
        first: &["--failpoint=step-split=abort", "--failpoint=step-stored=abort"],
        more: &["--bug=split_commit"],
        scenario: Scenario::Death,
    },
    Proof {
        bug: "process_clock",
        reason: "a false takeover",
        first: &[],
        more: &["--bug=process_clock", "--clock-skew=3600"],
        scenario: Scenario::Bystander,
    },
    Proof {
        bug: "no_poll",
        reason: "not settled",
        first: &["--failpoint=claimed=abort"],
        more: &["--bug=no_poll"],
        scenario: Scenario::Death,
    },
];

pub(crate) async fn run(suite: &Suite) {
    let mut scenarios = Vec::new();
    for proof in PROOFS {
        for has_bug in [false, true] {
            let name = format!("proof {}, {}", proof.bug, if has_bug { "with" } else { "without" });
            if name.contains(&suite.args.case) {
                scenarios
                    .push((name.clone(), run_proof(suite, name, proof, has_bug).boxed_local()));
            }
        }
    }
    suite.run_scenarios(suite.args.at_a_time, scenarios).await;
}

async fn run_proof(suite: &Suite, name: String, proof: Proof, has_bug: bool) -> anyhow::Result<()> {
    let tally = Arc::new(Tally::quiet());
    run_scenario(suite, &name, proof, has_bug, &tally).await?;
    let violations = tally.violations();
    if !has_bug {
        ensure!(violations.is_empty(), "violations without the defect: {}", violations.join("; "));
        return Ok(());
    }
    let found = violations.iter().find(|violation| violation.contains(proof.reason));
    ensure!(found.is_some(), "the defect was not detected; instead: {}", violations.join("; "));
    say(&format!("proof: {} is detected ({})", proof.bug, proof.reason));
    Ok(())
}

async fn run_scenario(
    suite: &Suite,
    name: &str,
    proof: Proof,
    has_bug: bool,
    tally: &Arc<Tally>,
) -> anyhow::Result<()> {
    let more = if has_bug { proof.more } else { &[] };
    let faults = [proof.first, &[]].map(|own| [own, more].concat());
    let faults = faults.map(|faults| faults.into_iter().map(str::to_owned).collect());
    let setup = Setup { faults, ..Setup::default() };
    let testbed = suite.testbed_on(name, suite.fast.database(false).await?, setup, tally).await?;
    testbed.start_all().await?;
    let session = testbed.session().await?;
    match proof.scenario {
        Scenario::Zombie => zombie(&testbed, &session).await,
        Scenario::Death => death(&testbed, &session).await,
        Scenario::Bystander => bystander(&testbed, &session).await,
    }
}

/// A node that has lost its run writes for it, because it does not know that.
async fn zombie(testbed: &Testbed, session: &str) -> anyhow::Result<()> {
    testbed.post(0, session, "slow.m0").await?;
    let mark = wait_for_failpoint(testbed, "reply-read", "pause").await?;
    expire_leases(testbed).await?;
    wait_until_working(testbed, 1).await?;
    std::fs::remove_file(mark)?;
    testbed.settle_within(REACHED_WITHIN).await?;
    std::fs::remove_file(testbed.mark("heartbeat", "pause"))?;
    testbed.settle_and_check().await
}

/// The other node must not take over the run of a healthy node.
async fn bystander(testbed: &Testbed, session: &str) -> anyhow::Result<()> {
    testbed.post(0, session, "slow.m0").await?;
    sleep(Duration::from_secs(1)).await;
    testbed.settle_and_check().await
}

/// A node dies during a run, and only the other node can continue it.
async fn death(testbed: &Testbed, session: &str) -> anyhow::Result<()> {
    testbed.post(0, session, "effect.m0").await?;
    ensure!(testbed.has_died(0, REACHED_WITHIN).await, "the node did not die");
    // A takeover takes 15 s at most.
    testbed.settle_within(Duration::from_secs(20)).await?;
    testbed.start(0).await?;
    testbed.settle_and_check().await
}
