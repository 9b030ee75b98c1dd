//! Waiting for sub-agents: their events are told as they come, and their last words are results.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::domain::event::NewEvent;
use crate::domain::sub_agent::report;
use crate::faults::{self, Point};
use crate::store::sub_agents::ChildRun;
use crate::worker::run::database_retry::{Patience, in_time};
use crate::worker::run::driver::{Driver, empty};
use crate::worker::run::stop_cause::Halt;
use crate::worker::sub_agents::relay::{Looked, Thread};
use crate::worker::tool_round::execute::ended;
use crate::worker::tool_round::plan::{Ended, Round};

/// When it is looked at a sub-agent of which nothing is heard, and how seldom in the end: it may wait
/// for somebody for an hour.
const LOOK_AFTER: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// What the model reads where somebody has deleted the sub-agent's session.
const DELETED: &str = "The sub-agent's session was deleted before it answered.";

impl Driver<'_> {
    /// Tells of what sub-agents do until all of them have ended. Meanwhile this run has no place
    /// among those that are worked on: they need one.
    pub(in crate::worker) async fn attend_to(
        &mut self,
        round: &mut Round<'_>,
        mut threads: Vec<Thread>,
    ) -> Result<(), Halt> {
        if threads.is_empty() {
            return Ok(());
        }
        let worker = self.worker;
        let _awaiting = worker.awaited.enter(threads.iter().map(Thread::run_id));
        self.slot.leave();
        worker.parts.bus.wake_worker();
        let signals = self.signals.clone();
        let mut patience = LOOK_AFTER;
        let mut looked = self.look(&threads).await?;
        if self.is_resumed {
            // They were found again, which is progress: worker after worker may die while they work.
            self.store(&[], &empty()).await?;
        }
        loop {
            let has_more = looked.iter().any(|looked| looked.has_more);
            self.take_news(round, &mut threads, looked).await?;
            if threads.is_empty() {
                break;
            }
            if !has_more {
                let news = timeout(patience, Thread::any_news(&mut threads));
                // Whether there was some or not: the database knows.
                let is_heard = signals.unless_draining(news).await?.is_ok();
                patience = if is_heard { LOOK_AFTER } else { LOOK_EVERY.min(2 * patience) };
            }
            looked = self.look(&threads).await?;
        }
        signals.unless_draining(self.slot.take_again()).await
    }

    /// Looks what is new of each.
    async fn look(&self, threads: &[Thread]) -> Result<Vec<Looked>, Halt> {
        let mut patience = Patience::default();
        loop {
            let read = async {
                let mut conn = self.worker.parts.pool.acquire().await?;
                let looked = Thread::look_at_all(threads, &mut conn).await?;
                conn.give_back();
                Ok::<_, Halt>(looked)
            };
            match in_time(read).await {
                Ok(looked) => return Ok(looked),
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        }
    }

    /// Tells readers what is new, and takes the results of those that have ended.
    async fn take_news(
        &mut self,
        round: &mut Round<'_>,
        threads: &mut Vec<Thread>,
        looked: Vec<Looked>,
    ) -> Result<(), Halt> {
        let events: Vec<NewEvent> =
            looked.iter().flat_map(|looked| looked.events.iter().cloned()).collect();
        if !events.is_empty() {
            self.tell(&events).await?;
        }
        let mut ends = Vec::new();
        for (thread, looked) in threads.iter_mut().zip(looked) {
            thread.has_told(looked.up_to);
            if let Some(end) = looked.end {
                ends.push((thread.position, thread.run_id(), end));
            }
        }
        threads.retain(|thread| !ends.iter().any(|(_, run_id, _)| *run_id == thread.run_id()));
        for (position, _, end) in ends {
            faults::point(Point::ChildEnded).await;
            match end {
                Some(child) => self.take_report(round, position, child).await,
                None => self.lose_task(round, position).await,
            }
        }
        // The last ones are stored with the message of the results.
        if threads.is_empty() { Ok(()) } else { self.record(round).await }
    }

    async fn take_report(&mut self, round: &mut Round<'_>, position: usize, child: ChildRun) {
        self.agent.spend_for_others(&child.spent);
        let Some(call) = round.calls.get(position) else { return };
        let context = self.context.of_call(&call.tool_use_id);
        let report = report(child.status, child.outcome.as_ref());
        let answer = self.worker.parts.tools.reported(&context, &call.name, report).await;
        let duration_ms = child.duration_ms;
        let ended = ended(position, call, answer, Instant::now());
        // The execution was counted when it began.
        round.take(Ended { is_execution: false, is_repeatable: false, duration_ms, ..ended });
    }

    /// Ends a call whose sub-agent nobody knows any more.
    pub(in crate::worker) async fn lose_task(&self, round: &mut Round<'_>, position: usize) {
        let Some(call) = round.calls.get(position) else { return };
        let context = self.context.of_call(&call.tool_use_id);
        let report = Err(DELETED.to_owned());
        let answer = self.worker.parts.tools.reported(&context, &call.name, report).await;
        let ended = ended(position, call, answer, Instant::now());
        round.take(Ended { is_execution: false, is_repeatable: false, ..ended });
    }
}
