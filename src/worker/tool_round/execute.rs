//! Execution of tool calls: each call once, recorded when it ends, all answered together.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::found_tools::deferred_tools;
use super::images::History;
use super::ledger::{
    AfterCrash, after_crash, ended_call, read_ledger, record_results, record_start,
};
use super::permission_decision::with_edited_inputs;
use super::permission_gate::{CallOfReply, PermissionGate};
use super::plan::{EndedCall, RoundResults, ToolRound};
use super::quick_calls::QuickCalls;
use super::sampling::Sampling;
use super::single_call::SingleCall;
use super::spans::{CallSpans, end_call};
use super::suspend::suspend;
use super::while_running::while_running;
use crate::domain::event::NewEvent;
use crate::domain::tool::{PARALLEL_CALLS, ToolCall, ToolClass};
use crate::faults::{self, Point};
use crate::store::tool_calls::LedgerRow;
use crate::tools::read_state::ReadState;
use crate::tools::workspace::Workspace;
use crate::tools::{Caller, SamplingAccess, ToolContext, file_hash};
use crate::worker::model_call::ModelCalls;
use crate::worker::model_call::reply_events::call_event;
use crate::worker::run::context::RunContext;
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::sub_agents::SubAgents;

/// Executes the tool calls of a run.
#[derive(Debug)]
pub(in crate::worker) struct ToolRunner<'a> {
    pub(super) run: &'a RunContext<'a>,
    pub(super) context: ToolContext,
    pub(super) gate: PermissionGate<'a>,
    sampling: Sampling,
}

impl<'a> ToolRunner<'a> {
    pub(in crate::worker) fn new(run: &'a RunContext<'a>) -> Self {
        let (services, claim) = (run.services, &run.claim);
        let workspace = if let Some(folder) = &claim.workspace {
            Workspace::named(folder.into())
        } else {
            let owner = claim.parent_session.unwrap_or(claim.session_id);
            Workspace::new(services.workspaces.join(owner.to_string()))
        };
        let (model, requests) = SamplingAccess::open();
        let context = ToolContext {
            workspace,
            stop: CancellationToken::new(),
            lease: run.signals.lease.clone(),
            tool_use_id: String::new(),
            claim: claim.fence,
            read_state: ReadState::of(services.pool.clone(), claim.session_id),
            after_plan: None,
            caller: Caller::of(services.pool.clone(), claim.session_id),
            model,
            deferred_tools: deferred_tools(&claim.settings),
            run_limit: None,
        };
        Self { run, context, gate: PermissionGate::new(run), sampling: Sampling::new(requests) }
    }

    /// The events of calls that the model has just requested, with their permissions.
    pub(in crate::worker) fn call_events(
        &mut self,
        state: &RunState<'_>,
        calls: &[ToolCall],
        message_id: &str,
    ) -> Result<Vec<NewEvent>, StopCause> {
        let event = |(position, call): (usize, &ToolCall)| {
            let call_of_reply = CallOfReply { calls, position, call };
            let permission =
                self.gate.permission(&state.writer, &mut self.context, call_of_reply)?;
            Ok(call_event(call, message_id, permission))
        };
        calls.iter().enumerate().map(event).collect()
    }

    /// Executes the calls that have no result yet and may run. Adjacent calls without effects run in
    /// parallel, and so do adjacent calls that start sub-agents. A call with effects runs alone, after
    /// the calls before it and before the calls after it, which wait if it must wait. `quick` are the
    /// calls if they have been started.
    pub(in crate::worker) async fn execute(
        &mut self,
        state: &mut RunState<'_>,
        model: &mut ModelCalls<'_>,
        calls: &[ToolCall],
        mut quick: Option<QuickCalls>,
    ) -> Result<RoundResults, StopCause> {
        self.limit_time(state);
        let ledger = read_ledger(state).await?;
        let calls = &with_edited_inputs(calls, &ledger)?;
        let mut round = ToolRound::new(calls, ledger);
        self.gate.apply(state, &mut self.context, &mut round).await?;
        let tools = Arc::clone(&self.run.services.tools);
        let is_parallel = |call: &ToolCall| tools.runs_in_parallel(&call.name);
        let end = round.barrier(is_parallel);
        let mut next = 0;
        while next < end {
            if state.progress.stop_if_draining().is_err() {
                record_results(&mut state.writer, &mut round).await?;
                return Err(StopCause::ShuttingDown);
            }
            let rest = calls.iter().take(end).skip(next);
            let parallel = rest.clone().take_while(|call| is_parallel(call)).count();
            if parallel > 0 {
                let positions = next..next + parallel;
                let running = match quick.take() {
                    Some(quick) => quick.into_stream().boxed(),
                    None => self.start_parallel(&round, &positions),
                };
                self.end_parallel(state, model, &mut round, running).await?;
                next += parallel;
                continue;
            }
            if round.is_held_before(next) && round.runnable(next).is_some() {
                break;
            }
            let starts_sub_agent =
                |call: &&ToolCall| tools.class(&call.name) == ToolClass::SubAgent;
            let sub_agents = rest.take_while(starts_sub_agent).count();
            if sub_agents > 0 {
                // Boxed, because the future is large and rarely needed.
                let mut sub_agents_of = SubAgents { state, context: &self.context };
                Box::pin(sub_agents_of.execute(&mut round, next..next + sub_agents)).await?;
                next += sub_agents;
            } else {
                self.run_alone(state, model, &mut round, next).await?;
                next += 1;
            }
        }
        if round.held().is_empty() {
            return Ok(round.into_results().with_references(calls, self.run.settings()));
        }
        Err(suspend(self.run, &mut state.writer, &self.context, round).await?)
    }

    /// Calls without effects at these positions, as a stream of their ends.
    fn start_parallel(
        &self,
        round: &ToolRound<'_>,
        positions: &Range<usize>,
    ) -> BoxStream<'static, EndedCall> {
        let calls = round.calls.iter().enumerate().filter(|(position, _)| {
            positions.contains(position) && round.runnable(*position).is_some()
        });
        let open: Vec<_> = calls.map(|(position, call)| self.start(position, call)).collect();
        stream::iter(open).buffer_unordered(PARALLEL_CALLS).boxed()
    }

    async fn end_parallel(
        &mut self,
        state: &mut RunState<'_>,
        model: &mut ModelCalls<'_>,
        round: &mut ToolRound<'_>,
        running: BoxStream<'static, EndedCall>,
    ) -> Result<(), StopCause> {
        // The earlier results are recorded first: a run that stops during these calls would lose
        // them.
        record_results(&mut state.writer, round).await?;
        // Calls that end together are recorded together, the last ones with the message.
        let mut running = running.ready_chunks(PARALLEL_CALLS);
        let mut next = self.sampling.serve_during(state, model, running.next()).await?;
        while let Some(ended) = next {
            let mut later = Vec::new();
            if !round.unstored.records.is_empty() {
                let recording = record_results(&mut state.writer, round);
                let (recorded, others) = while_running(recording, &mut running).await;
                recorded?;
                later = others;
                faults::point(Point::SomeRecorded).await;
            }
            for ended in ended {
                // A rule may have changed since the call was started.
                if round.runnable(ended.position).is_some() {
                    round.end_by_tool(ended, History::of(self.run, &state.writer));
                }
            }
            next = if later.is_empty() {
                self.sampling.serve_during(state, model, running.next()).await?
            } else {
                Some(later)
            };
        }
        Ok(())
    }

    /// Runs a call with effects: its start is committed before anything can happen.
    async fn run_alone(
        &mut self,
        state: &mut RunState<'_>,
        model: &mut ModelCalls<'_>,
        round: &mut ToolRound<'_>,
        position: usize,
    ) -> Result<(), StopCause> {
        let Some(row) = round.runnable(position) else { return Ok(()) };
        let Some(call) = round.calls.get(position) else { return Ok(()) };
        let now = self.current_hash(call, row).await;
        match after_crash(row, now.as_ref()) {
            AfterCrash::Run => {}
            AfterCrash::Done(text) => {
                round.end_applied(position, text);
                return Ok(());
            }
            AfterCrash::Unknown => {
                round.worker_stopped(position);
                return Ok(());
            }
        }
        // The earlier results are recorded first: this call may depend on them.
        record_results(&mut state.writer, round).await?;
        let single = SingleCall { position, call };
        match self.run.services.tools.class(&call.name) {
            ToolClass::Pure => {
                let ended = self.run_single(state, model, single).await?;
                round.end_by_tool(ended, History::of(self.run, &state.writer));
                Ok(())
            }
            ToolClass::Checkable => self.change_file(state, round, single).await,
            // Sub-agents are not executed here, and a call that looks like one never runs twice.
            ToolClass::Effect | ToolClass::SubAgent => {
                self.run_effect(state, model, round, single).await
            }
        }
    }

    async fn run_single(
        &mut self,
        state: &mut RunState<'_>,
        model: &mut ModelCalls<'_>,
        single: SingleCall<'_>,
    ) -> Result<EndedCall, StopCause> {
        let running = self.start(single.position, single.call);
        self.sampling.serve_during(state, model, running).await
    }

    /// Executes a call whose effect is the change of one file.
    async fn change_file(
        &self,
        state: &mut RunState<'_>,
        round: &mut ToolRound<'_>,
        SingleCall { position, call }: SingleCall<'_>,
    ) -> Result<(), StopCause> {
        let started = Instant::now();
        let span = CallSpans::new(self.run).begin(call);
        let tools = Arc::clone(&self.run.services.tools);
        let context = self.context.of_call(&call.tool_use_id);
        let planning = tools.plan(&context, &call.name, &call.input);
        let change = match self.run.signals.unless_stopped(planning).await? {
            Ok(change) => change,
            Err(answer) => {
                end_call(span, &answer);
                round.end_executed(ended_call(position, call, answer, started));
                return Ok(());
            }
        };
        let folder = self.limited_folder().await?;
        if let Some(folder) = folder {
            let needed = self.growth(&change);
            if let Some(exceeded) = self.check_folder(folder, needed).await? {
                self.refuse_by_quota(round, position, call, exceeded).await;
                return Ok(());
            }
        }
        record_start(&mut state.writer, call, Some(&change)).await?;
        faults::point(Point::CallStarted).await;
        // A write cannot be cancelled and is short. The run waits for its end, so that no other
        // worker repeats it while it goes on.
        let applying = tools.apply(&context, &call.name, change);
        let answer = self.run.signals.unless_lost(applying).await?;
        end_call(span, &answer);
        if let Some(folder) = folder {
            self.measure_folder(folder).await?;
        }
        faults::point(Point::CallEnded).await;
        let ended = ended_call(position, call, answer, started);
        // The execution was counted with its start.
        round.end_executed(EndedCall { is_execution: false, ..ended });
        Ok(())
    }

    /// Executes a call with effects.
    async fn run_effect(
        &mut self,
        state: &mut RunState<'_>,
        model: &mut ModelCalls<'_>,
        round: &mut ToolRound<'_>,
        single: SingleCall<'_>,
    ) -> Result<(), StopCause> {
        let SingleCall { position, call } = single;
        // Only commands write files besides the tools that change one file.
        let runs_command = self.run.services.tools.runs_commands(&call.name);
        let folder = if runs_command { self.limited_folder().await? } else { None };
        if let Some(folder) = folder
            && let Some(exceeded) = self.check_folder(folder, 1).await?
        {
            self.refuse_by_quota(round, position, call, exceeded).await;
            return Ok(());
        }
        let _permit = if runs_command { self.command_permit().await? } else { None };
        record_start(&mut state.writer, call, None).await?;
        faults::point(Point::CallStarted).await;
        let ended = self.run_single(state, model, single).await;
        if let Err(StopCause::ShuttingDown) = ended {
            // No later attempt can know more about this call.
            round.worker_stopped(position);
            record_results(&mut state.writer, round).await?;
        }
        let ended = ended?;
        faults::point(Point::CallEnded).await;
        if let Some(folder) = folder {
            self.measure_folder(folder).await?;
        }
        // The execution was counted with its start.
        let ended = EndedCall { is_execution: false, is_repeatable: false, ..ended };
        round.end_by_tool(ended, History::of(self.run, &state.writer));
        Ok(())
    }

    /// Waits until the process may execute a further command.
    async fn command_permit(&self) -> Result<Option<SemaphorePermit<'a>>, StopCause> {
        let commands: &'a Semaphore = &self.run.services.commands;
        // The semaphore is never closed.
        Ok(self.run.signals.unless_draining(commands.acquire()).await?.ok())
    }

    /// The current hash of the file that a call may have started to change.
    pub(super) async fn current_hash(
        &self,
        call: &ToolCall,
        row: Option<&LedgerRow>,
    ) -> Option<Option<Vec<u8>>> {
        let (path, _) = row?.change.as_ref()?;
        let context = self.context.of_call(&call.tool_use_id);
        file_hash(&context, path).await
    }
}
