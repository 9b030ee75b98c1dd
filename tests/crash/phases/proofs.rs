//! Defects that the test must notice. Each story is played twice: without its defect it must be
//! quiet, with it something must be said, and for the right reason.

use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use futures::FutureExt as _;
use tokio::time::sleep;

use crate::arena::{Arena, Setup};
use crate::hold::{REACHED_WITHIN, reached};
use crate::output::say;
use crate::tally::Tally;
use crate::work::{at_work, take_leases_away};
use crate::world::World;

/// A defect, and what must be said of it.
#[derive(Debug, Clone, Copy)]
struct Proof {
    bug: &'static str,
    reason: &'static str,
    /// What the first node has in store, with the defect and without.
    first: &'static [&'static str],
    /// What both nodes have in store with the defect.
    more: &'static [&'static str],
    story: Story,
}

/// What happens.
#[derive(Debug, Clone, Copy)]
enum Story {
    Zombie,
    Death,
    Bystander,
}

const PROOFS: [Proof; 5] = [
    Proof {
        bug: "no_attempt_check",
        reason: "which it did not hold",
        // With all its slots taken it does not take over from itself.
        first: &["--failpoint=heartbeat=pause", "--failpoint=reply-read=pause", "--slots=1"],
        more: &["--bug=no_attempt_check"],
        story: Story::Zombie,
    },
    Proof {
        bug: "no_started",
        reason: "ran 2 times",
        first: &["--failpoint=call-ended=abort"],
        more: &["--bug=no_started"],
        story: Story::Death,
    },
    Proof {
        bug: "split_commit",
        reason: "every call has its ledger row",
        // Without the defect only the second is there, at the end of the same step.
        first: &["--failpoint=step-split=abort", "--failpoint=step-stored=abort"],
        more: &["--bug=split_commit"],
        story: Story::Death,
    },
    Proof {
        bug: "process_clock",
        reason: "a false takeover",
        first: &[],
        more: &["--bug=process_clock", "--clock-skew=3600"],
        story: Story::Bystander,
    },
    Proof {
        bug: "no_poll",
        reason: "not settled",
        first: &["--failpoint=claimed=abort"],
        more: &["--bug=no_poll"],
        story: Story::Death,
    },
];

pub(crate) async fn play(world: &World) {
    let mut stories = Vec::new();
    for proof in PROOFS {
        for has_bug in [false, true] {
            let name = format!("proof {}, {}", proof.bug, if has_bug { "with" } else { "without" });
            if name.contains(&world.args.case) {
                stories.push((name.clone(), one(world, name, proof, has_bug).boxed_local()));
            }
        }
    }
    world.play(world.args.at_a_time, stories).await;
}

async fn one(world: &World, name: String, proof: Proof, has_bug: bool) -> anyhow::Result<()> {
    let tally = Arc::new(Tally::quiet());
    tell(world, &name, proof, has_bug, &tally).await?;
    let reds = tally.reds();
    if !has_bug {
        ensure!(reds.is_empty(), "found where there is nothing: {}", reds.join("; "));
        return Ok(());
    }
    let found = reds.iter().find(|red| red.contains(proof.reason));
    ensure!(found.is_some(), "the defect was not noticed; instead: {}", reds.join("; "));
    say(&format!("proof: {} is noticed ({})", proof.bug, proof.reason));
    Ok(())
}

async fn tell(
    world: &World,
    name: &str,
    proof: Proof,
    has_bug: bool,
    tally: &Arc<Tally>,
) -> anyhow::Result<()> {
    let more = if has_bug { proof.more } else { &[] };
    let faults = [proof.first, &[]].map(|own| [own, more].concat());
    let faults = faults.map(|faults| faults.into_iter().map(str::to_owned).collect());
    let setup = Setup { faults, ..Setup::default() };
    let arena = world.arena_on(name, world.fast.database(false).await?, setup, tally).await?;
    arena.start_all().await?;
    let session = arena.session().await?;
    match proof.story {
        Story::Zombie => zombie(&arena, &session).await,
        Story::Death => death(&arena, &session).await,
        Story::Bystander => bystander(&arena, &session).await,
    }
}

/// A node that has lost its run and does not know it answers.
async fn zombie(arena: &Arena, session: &str) -> anyhow::Result<()> {
    arena.post(0, session, "slow.m0").await?;
    let mark = reached(arena, "reply-read", "pause").await?;
    take_leases_away(arena).await?;
    at_work(arena, 1).await?;
    std::fs::remove_file(mark)?;
    arena.settle_within(REACHED_WITHIN).await?;
    std::fs::remove_file(arena.mark("heartbeat", "pause"))?;
    arena.settle_and_check().await
}

/// A node that has nothing to do with a run looks on.
async fn bystander(arena: &Arena, session: &str) -> anyhow::Result<()> {
    arena.post(0, session, "slow.m0").await?;
    sleep(Duration::from_secs(1)).await;
    arena.settle_and_check().await
}

/// A node dies with its run, and only the other one is there to go on.
async fn death(arena: &Arena, session: &str) -> anyhow::Result<()> {
    arena.post(0, session, "effect.m0").await?;
    ensure!(arena.has_died(0, REACHED_WITHIN).await, "it did not die");
    // A takeover takes 15 s at most.
    arena.settle_within(Duration::from_secs(20)).await?;
    arena.start(0).await?;
    arena.settle_and_check().await
}
