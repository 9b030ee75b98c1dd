//! The start of sub-agents: their sessions, their runs and their ledger rows are one step.

use serde_json::value::RawValue;

use super::SubAgents;
use super::relay::Relay;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::provenance::ResultOrigin;
use crate::domain::run_options::RunOptions;
use crate::domain::session::Settings;
use crate::domain::storable::without_nul;
use crate::domain::sub_agent::{Share, StartedSubAgent, SubAgent, Task};
use crate::domain::tool::{CallState, ToolCall};
use crate::faults::{self, Point};
use crate::store::budgets::of_session;
use crate::store::step::{CallRecord, StepCommit};
use crate::store::sub_agents::SubAgentRow;
use crate::tools::policy::UrlHistory;
use crate::tools::workspace::hash;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::tool_round::url_history::{max_links, url_history};

/// A call that starts a sub-agent.
pub(super) struct SubAgentStart<'a> {
    pub(super) call: &'a ToolCall,
    pub(super) position: usize,
    pub(super) task: Task,
    pub(super) agent: SubAgent,
}

/// The changes that start one sub-agent.
struct NewSubAgent {
    row: SubAgentRow,
    record: CallRecord,
    event: NewEvent,
}

impl SubAgents<'_, '_> {
    /// Starts sub-agents in one step.
    pub(super) async fn start_all(
        &mut self,
        starts: &[SubAgentStart<'_>],
    ) -> Result<Vec<Relay>, StopCause> {
        if starts.is_empty() {
            return Ok(Vec::new());
        }
        let share = self.share(starts.len()).await?;
        let urls = self.url_history(starts);
        let (mut rows, mut records, mut events) = (Vec::new(), Vec::new(), Vec::new());
        for start in starts {
            let NewSubAgent { row, record, event } =
                self.new_sub_agent(start, share, &urls, starts.len())?;
            rows.push(row);
            records.push(record);
            events.push(event);
        }
        let step = StepCommit {
            recorded_message_seq: self.state.writer.last_message_seq(),
            recorded: &records,
            events: &events,
            sub_agents: &rows,
            ..StepCommit::default()
        };
        self.state.writer.store(&[], &step).await?;
        faults::point(Point::CallStarted).await;
        let bus = &self.state.run.services.bus;
        bus.announce_work();
        let started = starts.iter().map(|start| start.position).zip(rows);
        Ok(started.map(|(position, new)| Relay::new(bus, position, new.sub_agent, 0)).collect())
    }

    fn new_sub_agent(
        &self,
        start: &SubAgentStart<'_>,
        share: Share,
        urls: &UrlHistory,
        parts: usize,
    ) -> Result<NewSubAgent, StopCause> {
        let SubAgentStart { call, task, agent, .. } = start;
        let run = self.state.run;
        let claim = &run.claim;
        let provenance = urls.task(&task.prompt, max_links(run), parts);
        let settings = claim.settings.for_sub_agent(agent, share)?;
        let sub_agent = StartedSubAgent {
            tool_use_id: call.tool_use_id.clone(),
            session_id: SessionId::new(),
            run_id: RunId::new(),
        };
        let record = CallRecord {
            is_execution: true,
            input_hash: Some(hash(call.input.get().as_bytes())),
            sub_agent_run: Some(sub_agent.run_id),
            ..CallRecord::new(&call.tool_use_id, CallState::Started)
        };
        let description = without_nul(task.description.clone());
        let event = NewEvent::new(&EventBody::ThreadCreated {
            session_thread_id: sub_agent.session_id,
            thread_run_id: sub_agent.run_id,
            tool_use_id: sub_agent.tool_use_id.clone(),
            agent_name: agent.name.clone(),
            description: description.clone(),
        });
        let row = SubAgentRow {
            sub_agent,
            title: description,
            settings: Settings { task: Some(Box::new(provenance)), ..settings },
            prompt: without_nul(task.prompt.clone()),
            options: RunOptions { trace: claim.options.trace, ..RunOptions::default() },
        };
        Ok(NewSubAgent { row, record, event })
    }

    /// The URLs that the parent's conversation has named before these calls.
    fn url_history(&self, starts: &[SubAgentStart<'_>]) -> UrlHistory {
        let (settings, tools) = (self.state.run.settings(), &self.state.run.services.tools);
        // `WebFetch` is a service if it can also read pages of a private network.
        let may_read_web = |name: &String| {
            let origin = tools.result_origin(name, RawValue::NULL);
            matches!(origin, Some(ResultOrigin::PublicWeb | ResultOrigin::Service))
        };
        if !settings.tool_names().iter().any(may_read_web) {
            return UrlHistory::default();
        }
        let current: Vec<ToolCall> = starts.iter().map(|start| start.call.clone()).collect();
        url_history(self.state.run, &self.state.writer.transcript, &current)
    }

    /// The share of each of `parts` sub-agents in what the run and the session have left.
    async fn share(&self, parts: usize) -> Result<Share, StopCause> {
        let (run, progress) = (self.state.run, &self.state.progress);
        let (mut tokens, mut cost) = progress.agent.remaining();
        let budget = run.settings().budget;
        if !budget.is_open() {
            let session_id = run.session_id();
            let pool = &run.services.pool;
            let read = |_| pool.with(async |conn| Ok(of_session(conn, session_id, budget).await?));
            let used = run.retry(read).await?;
            let left = |budget: Option<i64>, used: i64| budget.map(|budget| budget - used);
            tokens = tokens.into_iter().chain(left(budget.tokens, used.tokens)).min();
            cost = cost.into_iter().chain(left(budget.cost, used.cost)).min();
        }
        let parts = i64::try_from(parts).unwrap_or(i64::MAX);
        let part = |left: i64| (left / parts).max(1);
        let elapsed = u32::try_from(progress.elapsed().as_secs()).unwrap_or(u32::MAX);
        let seconds = run.limits.seconds.map(|seconds| seconds.saturating_sub(elapsed).max(1));
        Ok(Share { tokens: tokens.map(part), cost: cost.map(part), seconds })
    }
}
