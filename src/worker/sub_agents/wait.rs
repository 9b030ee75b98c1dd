//! Waiting for sub-agents: their events are relayed as they are stored, and the reports of the
//! finished sub-agents are the results of their calls.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::SubAgents;
use super::relay::{Relay, RelayBatch, SubAgentEnd};
use crate::domain::event::NewEvent;
use crate::domain::sub_agent::report;
use crate::faults::{self, Point};
use crate::store::step::StepCommit;
use crate::store::sub_agents::SubAgentRun;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::tool_round::ledger::{ended_call, record_results};
use crate::worker::tool_round::plan::{EndedCall, ToolRound};

/// Shortest and longest time without a signal after which the sub-agents are polled: a sub-agent may
/// wait an hour for an approval.
const FIRST_POLL: Duration = Duration::from_secs(1);
const LONGEST_POLL: Duration = Duration::from_secs(15);

impl SubAgents<'_, '_> {
    /// Relays the events of sub-agents until all of them have ended. Meanwhile this run has no slot:
    /// the sub-agents need slots.
    pub(super) async fn wait(
        &mut self,
        round: &mut ToolRound<'_>,
        mut relays: Vec<Relay>,
    ) -> Result<(), StopCause> {
        if relays.is_empty() {
            return Ok(());
        }
        let (services, signals) = (self.state.run.services, &self.state.run.signals);
        self.state.slot.yield_to_sub_agents();
        services.bus.wake_worker();
        let mut poll_after = FIRST_POLL;
        let mut batches = self.read_batches(&relays).await?;
        if self.state.progress.is_resumed {
            // Finding the sub-agents is progress: several workers may stop while they work.
            self.state.writer.store(&[], &StepCommit::default()).await?;
        }
        loop {
            let has_more = batches.iter().any(|batch| batch.has_more);
            self.process(round, &mut relays, batches).await?;
            if relays.is_empty() {
                break;
            }
            if !has_more {
                let signal = timeout(poll_after, Relay::any_signal(&mut relays));
                // The database is read with or without a signal.
                let is_signalled = signals.unless_draining(signal).await?.is_ok();
                poll_after =
                    if is_signalled { FIRST_POLL } else { LONGEST_POLL.min(2 * poll_after) };
            }
            batches = self.read_batches(&relays).await?;
        }
        signals.unless_draining(self.state.slot.reacquire()).await
    }

    async fn read_batches(&self, relays: &[Relay]) -> Result<Vec<RelayBatch>, StopCause> {
        let pool = &self.state.run.services.pool;
        let read = |_| {
            pool.with(async |conn| {
                let mut batches = Vec::with_capacity(relays.len());
                for relay in relays {
                    batches.push(relay.read(conn).await?);
                }
                Ok(batches)
            })
        };
        self.state.run.retry(read).await
    }

    /// Relays new events, and ends the calls of the sub-agents that have ended.
    async fn process(
        &mut self,
        round: &mut ToolRound<'_>,
        relays: &mut Vec<Relay>,
        batches: Vec<RelayBatch>,
    ) -> Result<(), StopCause> {
        let events: Vec<NewEvent> =
            batches.iter().flat_map(|batch| batch.events.iter().cloned()).collect();
        if !events.is_empty() {
            self.state.writer.store_events(&events).await?;
        }
        let mut ended = Vec::new();
        for (mut relay, batch) in std::mem::take(relays).into_iter().zip(batches) {
            relay.set_relayed(batch.up_to);
            match batch.end {
                Some(end) => ended.push((relay.position, end)),
                None => relays.push(relay),
            }
        }
        for (position, end) in ended {
            faults::point(Point::ChildEnded).await;
            match end {
                SubAgentEnd::Settled(run) => self.end_settled(round, position, *run).await,
                SubAgentEnd::Deleted => self.end_deleted(round, position).await,
            }
        }
        // The last results are stored with the message of results.
        if relays.is_empty() {
            return Ok(());
        }
        record_results(&mut self.state.writer, round).await
    }

    async fn end_settled(&mut self, round: &mut ToolRound<'_>, position: usize, run: SubAgentRun) {
        self.state.progress.agent.add_sub_agent_usage(&run.spent);
        let Some(call) = round.calls.get(position) else { return };
        let context = self.context.of_call(&call.tool_use_id);
        let report = report(run.status, run.outcome.as_ref());
        let tools = &self.state.run.services.tools;
        let answer = tools.reported(&context, &call.name, report).await;
        let ended = ended_call(position, call, answer, Instant::now());
        // The execution was counted with its start.
        round.end_executed(EndedCall {
            is_execution: false,
            is_repeatable: false,
            duration_ms: run.duration_ms,
            ..ended
        });
    }
}
