//! The calls of a round that start sub-agents, and the sub-agents that earlier attempts started.

use std::ops::Range;
use std::time::Instant;

use super::SubAgents;
use super::relay::Relay;
use super::start::SubAgentStart;
use crate::domain::ids::RunId;
use crate::domain::sub_agent::{SubAgent, Task};
use crate::domain::tool::{CallState, ToolCall};
use crate::tools::CallOutcome;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::tool_round::ledger::{ended_call, record_results};
use crate::worker::tool_round::plan::{EndedCall, ToolRound};

/// Maximum number of sub-agents of one round that work at once.
const PARALLEL: usize = 8;
/// The result of a call whose sub-agent's session was deleted.
const DELETED: &str = "The sub-agent's session was deleted before it answered.";

impl SubAgents<'_, '_> {
    /// Starts the sub-agents of these calls, or finds them again, and waits for their results.
    pub(in crate::worker) async fn execute(
        &mut self,
        round: &mut ToolRound<'_>,
        positions: Range<usize>,
    ) -> Result<(), StopCause> {
        // The earlier results are recorded first: the sub-agents may depend on them.
        record_results(&mut self.state.writer, round).await?;
        let positions: Vec<usize> = positions.collect();
        for positions in positions.chunks(PARALLEL) {
            let relays = self.relays(round, positions).await?;
            self.wait(round, relays).await?;
        }
        Ok(())
    }

    /// The sub-agents of these calls: those that an earlier attempt started, and new ones.
    async fn relays(
        &mut self,
        round: &mut ToolRound<'_>,
        positions: &[usize],
    ) -> Result<Vec<Relay>, StopCause> {
        let (mut starts, mut relays) = (Vec::new(), Vec::new());
        for &position in positions {
            let Some(row) = round.runnable(position) else { continue };
            let Some(call) = round.calls.get(position) else { continue };
            match row.map(|row| (row.state, row.sub_agent_run)) {
                Some((CallState::Started, Some(run_id))) => {
                    match self.find(position, call, run_id).await? {
                        Some(relay) => relays.push(relay),
                        None => self.end_deleted(round, position).await,
                    }
                }
                Some((CallState::Started, None)) => {
                    round.worker_stopped(position);
                }
                Some(_) | None => match self.task(call).await {
                    Ok((task, agent)) => starts.push(SubAgentStart { call, position, task, agent }),
                    Err(answer) => {
                        let failed = ended_call(position, call, answer, Instant::now());
                        round.end_executed(EndedCall { is_execution: false, ..failed });
                    }
                },
            }
        }
        let starts = self.within_quota(round, starts).await?;
        relays.extend(self.start_all(&starts).await?);
        Ok(relays)
    }

    /// The task of a call and the sub-agent that it names.
    async fn task(&self, call: &ToolCall) -> Result<(Task, SubAgent), CallOutcome> {
        let context = self.context.of_call(&call.tool_use_id);
        let tools = &self.state.run.services.tools;
        let task = tools.task(&context, &call.name, &call.input).await?;
        let settings = self.state.run.settings();
        let refused = if task.prompt.trim().is_empty() {
            "the prompt is blank".to_owned()
        } else if let Some(agent) = settings.sub_agent(task.agent.as_deref()) {
            return Ok((task, agent));
        } else {
            let (name, names) = (task.agent.unwrap_or_default(), settings.sub_agent_names());
            format!("there is no sub-agent {name:?}; there are: {}", names.join(", "))
        };
        Err(tools.reported(&context, &call.name, Err(refused)).await)
    }

    /// The sub-agent that an earlier attempt started; none if its session was deleted.
    async fn find(
        &self,
        position: usize,
        call: &ToolCall,
        run_id: RunId,
    ) -> Result<Option<Relay>, StopCause> {
        let run = self.state.run;
        let pool = &run.services.pool;
        let find = |_| pool.with(async |conn| Relay::find(conn, run, position, call, run_id).await);
        run.retry(find).await
    }

    /// Ends a call whose sub-agent's session was deleted.
    pub(super) async fn end_deleted(&self, round: &mut ToolRound<'_>, position: usize) {
        let Some(call) = round.calls.get(position) else { return };
        let context = self.context.of_call(&call.tool_use_id);
        let tools = &self.state.run.services.tools;
        let answer = tools.reported(&context, &call.name, Err(DELETED.to_owned())).await;
        let ended = ended_call(position, call, answer, Instant::now());
        round.end_executed(EndedCall { is_execution: false, is_repeatable: false, ..ended });
    }
}
