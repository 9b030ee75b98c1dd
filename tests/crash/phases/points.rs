//! A fault at every point.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use futures::FutureExt as _;
use futures::future::try_join_all;
use rustix::process::Signal;
use sqlx::Executor as _;

use crate::arena::{Arena, Deed, Setup};
use crate::hold::{Commit, Held, Hold, REACHED_WITHIN, reached};
use crate::phases::poison;
use crate::phases::stops::stand_still;
use crate::points::{CASES, Case, Place, QUEUED_CLAIM, TAKEOVER};
use crate::work::{Posts, at_work, take_leases_away};
use crate::world::World;

/// What happens at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The process is killed.
    Kill,
    /// Its connections to the database are cut.
    Disconnect,
    /// It stands still until others have taken its work over.
    Stop,
}

/// Plays all cases with all their faults.
pub(crate) async fn play(world: &World) {
    let wanted = |name: &str| name.contains(&world.args.case);
    let mut stories = Vec::new();
    // The longest first.
    for fault in [Fault::Stop, Fault::Kill, Fault::Disconnect] {
        for case in CASES {
            let name = format!("{} {fault:?}", case.name());
            if wanted(&name) && case.bears(fault) {
                stories.push((name.clone(), one(world, name, case, fault).boxed_local()));
            }
        }
    }
    let poison = "a run that kills its workers";
    if wanted(poison) {
        stories.push((poison.to_owned(), poison::play(world, poison).boxed_local()));
    }
    world.play(world.args.at_a_time, stories).await;
    let bold: Vec<Case> = CASES.into_iter().filter(|case| case.is_bold).collect();
    // More of them would want more connections than a server has.
    let parts = bold.chunks(4).enumerate().map(|(number, cases)| {
        (format!("bold points {number}, Postgres"), postgres(world, cases).boxed_local())
    });
    world.play(1, parts.filter(|(name, _)| wanted(name)).collect()).await;
}

impl Case {
    fn bears(&self, fault: Fault) -> bool {
        match fault {
            Fault::Kill => true,
            Fault::Disconnect => !matches!(self.place, Place::Drain),
            Fault::Stop => self.is_bold,
        }
    }
}

async fn one(world: &World, name: String, case: Case, fault: Fault) -> anyhow::Result<()> {
    let story = Story { world, name, case, fault };
    match case.place {
        Place::Code(point, nth) => story.in_code(point, nth).await,
        Place::Commit(commit) => story.in_commit(commit, 1).await,
        Place::QueuedClaim => story.in_commit(QUEUED_CLAIM, 2).await,
        Place::Sweep => story.in_sweep().await,
        Place::Drain => story.in_drain().await,
        Place::Migration => story.in_migration().await,
    }
}

struct Story<'a> {
    world: &'a World,
    name: String,
    case: Case,
    fault: Fault,
}

impl Story<'_> {
    async fn arena(&self, failpoint: Option<String>) -> anyhow::Result<Arc<Arena>> {
        let faults = failpoint.map(|failpoint| format!("--failpoint={failpoint}"));
        let setup = Setup { faults: [faults.into_iter().collect(), vec![]], ..Setup::default() };
        self.world.arena(&self.name, &self.world.fast, setup).await
    }

    async fn in_code(&self, point: &str, nth: u32) -> anyhow::Result<()> {
        let action = if self.fault == Fault::Kill { "abort" } else { "pause" };
        let arena = self.arena(Some(format!("{point}@{nth}={action}"))).await?;
        arena.start(0).await?;
        // Now and then there is nobody else until it is back.
        let is_alone = self.fault == Fault::Kill && self.world.rng(&self.name).u8(..3) == 0;
        if !is_alone {
            arena.start(1).await?;
        }
        let posts = Posts::start(&arena, self.case.kind, 1).await?;
        if self.fault == Fault::Kill {
            ensure!(arena.has_died(0, REACHED_WITHIN).await, "{point} was not reached");
            ensure!(arena.mark(point, "hit").exists(), "it died elsewhere");
            return self.revive(&arena, 0, posts).await;
        }
        let mark = reached(&arena, point, "pause").await?;
        if self.fault == Fault::Disconnect {
            arena.disconnect(0).await?;
            std::fs::remove_file(mark)?;
        } else {
            stand_still(&arena, 0, || Ok(std::fs::remove_file(mark)?)).await?;
        }
        self.end(&arena, posts).await
    }

    async fn in_commit(&self, commit: Commit, messages: usize) -> anyhow::Result<()> {
        let arena = self.arena(None).await?;
        arena.start_all().await?;
        let hold = Hold::commit(&arena.database, commit).await?;
        let posts = Posts::start(&arena, self.case.kind, messages).await?;
        self.strike(&arena, hold, posts).await
    }

    /// Strikes whoever is held.
    async fn strike(&self, arena: &Arc<Arena>, hold: Hold, posts: Posts) -> anyhow::Result<()> {
        let Some(Held { seat, backend }) = hold.held(&arena.pool).await? else {
            bail!("the commit was not reached");
        };
        if self.fault == Fault::Kill {
            arena.kill(seat).await?;
            // The server commits for somebody who is dead.
            hold.release().await?;
            return self.revive(arena, seat, posts).await;
        }
        arena.note(Some(seat), Deed::Disconnected);
        let end = sqlx::query("SELECT pg_terminate_backend($1)").bind(backend);
        end.execute(&arena.pool).await?;
        arena.tally.terminations.add(1);
        hold.release().await?;
        self.end(arena, posts).await
    }

    async fn in_sweep(&self) -> anyhow::Result<()> {
        let arena = self.arena(None).await?;
        arena.start_all().await?;
        let posts = Posts::start(&arena, self.case.kind, 1).await?;
        at_work(&arena, 0).await?;
        arena.kill(0).await?;
        let hold = Hold::commit(&arena.database, TAKEOVER).await?;
        take_leases_away(&arena).await?;
        self.strike(&arena, hold, posts).await
    }

    async fn in_drain(&self) -> anyhow::Result<()> {
        let arena = self.arena(Some("draining=abort".to_owned())).await?;
        arena.start_all().await?;
        let posts = Posts::start(&arena, self.case.kind, 1).await?;
        at_work(&arena, 0).await?;
        arena.signal(0, Signal::TERM).await?;
        ensure!(arena.has_died(0, REACHED_WITHIN).await, "it did not end");
        ensure!(arena.mark("draining", "hit").exists(), "it died elsewhere");
        self.revive(&arena, 0, posts).await
    }

    async fn in_migration(&self) -> anyhow::Result<()> {
        let database = self.world.fast.database(true).await?;
        let setup = Setup::default();
        let arena =
            self.world.arena_on(&self.name, database.clone(), setup, &self.world.tally).await?;
        let hold = Hold::migration(&database, "messages").await?;
        let node = arena.spawn(0)?;
        let Some(held) = hold.held(&arena.pool).await? else {
            bail!("the migration was not reached");
        };
        if self.fault == Fault::Kill {
            node.kill().await?;
            arena.tally.kills.add(1);
            hold.release().await?;
        } else {
            let end = sqlx::query("SELECT pg_terminate_backend($1)").bind(held.backend);
            end.execute(&arena.pool).await?;
            hold.release().await?;
            drop(node);
        }
        arena.start_all().await?;
        arena.pool.execute(include_str!("../audit.sql")).await?;
        database.let_in(&arena.pool).await?;
        let posts = Posts::start(&arena, self.case.kind, 1).await?;
        self.end(&arena, posts).await
    }

    /// Starts the dead node again: at once, or after the other one has finished its work. If there
    /// is no other, it must do the work alone.
    async fn revive(
        &self,
        arena: &Arc<Arena>,
        seat: usize,
        mut posts: Posts,
    ) -> anyhow::Result<()> {
        let has_other = arena.address(1 - seat).is_some();
        let is_late = has_other && self.world.rng(&self.name).bool();
        if !is_late {
            arena.start(seat).await?;
        }
        if is_late || !has_other {
            posts.accepted().await?;
            arena.settle_within(Duration::from_mins(1)).await?;
            arena.start(if is_late { seat } else { 1 - seat }).await?;
        }
        self.end(arena, posts).await
    }

    async fn end(&self, arena: &Arc<Arena>, mut posts: Posts) -> anyhow::Result<()> {
        posts.accepted().await?;
        arena.settle_and_check().await?;
        posts.end().await;
        arena.tally.reached(self.case.point);
        Ok(())
    }
}

/// A crash of Postgres while a node of every arena is at a point.
async fn postgres(world: &World, cases: &[Case]) -> anyhow::Result<()> {
    let stories: Vec<Story<'_>> = cases
        .iter()
        .map(|&case| Story {
            world,
            name: format!("{} Postgres", case.name()),
            case,
            fault: Fault::Disconnect,
        })
        .collect();
    let caught = try_join_all(stories.iter().map(async |story| {
        let Place::Code(point, nth) = story.case.place else { bail!("not a point of the code") };
        let fault = format!("--failpoint={point}@{nth}=pause");
        let setup = Setup { faults: [vec![fault], vec![]], ..Setup::default() };
        let arena = world.arena(&story.name, &world.durable, setup).await?;
        arena.start_all().await?;
        let posts = Posts::start(&arena, story.case.kind, 1).await?;
        let mark = reached(&arena, point, "pause").await?;
        Ok((arena, posts, mark))
    }))
    .await?;
    for (arena, _, _) in &caught {
        arena.note(None, Deed::Disconnected);
    }
    world.durable.crash().await?;
    world.tally.restarts.add(1);
    let ends = stories.iter().zip(caught).map(async |(story, (arena, posts, mark))| {
        std::fs::remove_file(mark)?;
        story.end(&arena, posts).await
    });
    try_join_all(ends).await?;
    Ok(())
}
