//! The tool calls of a round: run once, recorded as they end, answered together.

use std::sync::Arc;
use std::time::Instant;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _};

use crate::domain::tool::{CallResult, CallState, INTERRUPTED, ToolCall, ToolClass};
use crate::faults::{self, Bug, Point};
use crate::store::step::{CallRecord, ChangeRecord, StepCommit};
use crate::store::tool_calls::{LedgerRow, list_final};
use crate::tools::workspace::hash;
use crate::tools::{Answer, FileChange, Registry, ToolContext, file_hash};
use crate::worker::run::database_retry::{Patience, in_time};
use crate::worker::run::driver::{Driver, millis};
use crate::worker::run::spans::{CallSpans, end_call};
use crate::worker::run::stop_cause::Halt;
use crate::worker::tool_round::permission_gate::with_inputs;
use crate::worker::tool_round::plan::{AfterCrash, Answered, Ended, Round, after_crash};

/// Pure calls of one round that run at a time.
const PARALLEL: usize = 8;

impl Driver<'_> {
    /// Runs the calls that have no result yet and may run. Neighbours that change nothing run in
    /// parallel, and so do neighbours that start sub-agents; a call with effects runs alone, after
    /// those before it and before those behind it, which wait if it must wait.
    pub(in crate::worker) async fn call_tools(
        &mut self,
        calls: &[ToolCall],
    ) -> Result<Answered, Halt> {
        let ledger = self.ledger().await?;
        let calls = &with_inputs(calls, &ledger)?;
        let mut round = Round::new(calls, ledger);
        self.open_gates(&mut round).await?;
        let tools = Arc::clone(&self.worker.parts.tools);
        let is_parallel = |call: &ToolCall| tools.runs_in_parallel(&call.name);
        let end = round.barrier(is_parallel);
        let mut next = 0;
        while next < end {
            if self.stop_if_draining().is_err() {
                self.record(&mut round).await?;
                return Err(Halt::ShuttingDown);
            }
            let rest = calls.iter().take(end).skip(next);
            let parallel = rest.clone().take_while(|call| is_parallel(call)).count();
            if parallel > 0 {
                self.run_parallel(&mut round, next..next + parallel).await?;
                next += parallel;
                continue;
            }
            if round.is_held_before(next) && round.runnable(next).is_some() {
                break;
            }
            let tasks = rest.take_while(|call| tools.class(&call.name) == ToolClass::Child).count();
            if tasks > 0 {
                // Boxed, because it is seldom and large.
                Box::pin(self.delegate(&mut round, next..next + tasks)).await?;
                next += tasks;
            } else {
                self.run_alone(&mut round, next).await?;
                next += 1;
            }
        }
        if round.held().is_empty() { Ok(round.answered()) } else { self.suspend(round).await }
    }

    /// Answers for calls that will not be run, because their run ends first.
    pub(in crate::worker) async fn close_calls(&mut self) -> Result<Answered, Halt> {
        let calls = self.open_calls();
        if calls.is_empty() {
            return Ok(Answered::default());
        }
        let mut round = Round::new(&calls, self.ledger().await?);
        for (position, call) in calls.iter().enumerate() {
            self.close_change(&mut round, position, call).await;
            self.close_task(&mut round, position).await?;
        }
        round.close();
        Ok(round.answered())
    }

    /// A change of a file that had begun is judged by the file. To look at it also clears away
    /// what the change left unfinished.
    async fn close_change(&self, round: &mut Round<'_>, position: usize, call: &ToolCall) {
        let Some(Some(row)) = round.open(position) else { return };
        if row.state != CallState::Started {
            return;
        }
        let now = self.file_of(call, Some(row)).await;
        if let AfterCrash::Done(text) = after_crash(Some(row), now.as_ref()) {
            round.end_made(position, text);
        }
    }

    pub(in crate::worker) fn class(&self, call: &ToolCall) -> ToolClass {
        self.worker.parts.tools.class(&call.name)
    }

    /// What the ledger says of the calls. Calls that this attempt has just planned need no look.
    async fn ledger(&self) -> Result<Vec<LedgerRow>, Halt> {
        if !self.is_resumed {
            return Ok(Vec::new());
        }
        let mut patience = Patience::default();
        loop {
            match in_time(self.read_ledger()).await {
                Ok(rows) => return Ok(rows),
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        }
    }

    async fn read_ledger(&self) -> Result<Vec<LedgerRow>, Halt> {
        let mut conn = self.worker.parts.pool.acquire().await?;
        let rows = list_final(&mut conn, self.session_id(), self.last_message_seq()).await?;
        conn.give_back();
        Ok(rows)
    }

    async fn run_parallel(
        &mut self,
        round: &mut Round<'_>,
        positions: std::ops::Range<usize>,
    ) -> Result<(), Halt> {
        // What ended before them, or a run that stops now would forget it.
        self.record(round).await?;
        let calls = round.calls;
        let tools = Arc::clone(&self.worker.parts.tools);
        let (context, spans) = (self.context.clone(), self.call_spans());
        // Boxed, because the compiler cannot prove a stream of borrowing closures to be Send.
        let open: Vec<BoxFuture<'_, Ended>> = calls
            .iter()
            .enumerate()
            .filter(|(position, _)| {
                positions.contains(position) && round.runnable(*position).is_some()
            })
            .map(|(position, call)| run(&tools, &context, &spans, (position, call)).boxed())
            .collect();
        let running = stream::iter(open);
        // Those that end together are recorded together, the last ones with the message.
        let mut ended = Box::pin(running.buffer_unordered(PARALLEL).ready_chunks(PARALLEL));
        while let Some(ended) = self.attend(ended.next()).await? {
            if !round.answered.records.is_empty() {
                self.record(round).await?;
                faults::point(Point::SomeRecorded).await;
            }
            for ended in ended {
                round.take(ended);
            }
        }
        Ok(())
    }

    /// Runs a call that changes something: its beginning is committed before anything can happen.
    async fn run_alone(&mut self, round: &mut Round<'_>, position: usize) -> Result<(), Halt> {
        let Some(row) = round.runnable(position) else {
            return Ok(());
        };
        let Some(call) = round.calls.get(position) else {
            return Ok(());
        };
        let now = self.file_of(call, row).await;
        match after_crash(row, now.as_ref()) {
            AfterCrash::Run => {}
            AfterCrash::Done(text) => {
                round.end_made(position, text);
                return Ok(());
            }
            AfterCrash::Unknown => {
                round.end(position, CallState::Interrupted, INTERRUPTED);
                return Ok(());
            }
        }
        // What ended before it is stored first: this call may stand on it.
        self.record(round).await?;
        match self.class(call) {
            ToolClass::Pure => {
                let (tools, context) = (Arc::clone(&self.worker.parts.tools), self.context.clone());
                let spans = self.call_spans();
                let running = Box::pin(run(&tools, &context, &spans, (position, call)));
                let ended = self.attend(running).await?;
                round.take(ended);
                Ok(())
            }
            ToolClass::Checkable => self.change_file(round, position, call).await,
            // A sub-agent is not run here, and nothing that passes for one is run twice.
            ToolClass::Effect | ToolClass::Child => self.run_effect(round, position, call).await,
        }
    }

    /// Makes the change of a file that a call comes to.
    async fn change_file(
        &mut self,
        round: &mut Round<'_>,
        position: usize,
        call: &ToolCall,
    ) -> Result<(), Halt> {
        let started = Instant::now();
        let span = self.call_spans().begin(call);
        let tools = Arc::clone(&self.worker.parts.tools);
        let context = self.context.of_call(&call.tool_use_id);
        let planning = tools.plan(&context, &call.name, &call.input);
        let change = match self.signals.unless_stopped(planning).await? {
            Ok(change) => change,
            Err(answer) => {
                end_call(span, &answer);
                round.take(ended(position, call, answer, started));
                return Ok(());
            }
        };
        self.start(call, Some(&change)).await?;
        faults::point(Point::CallStarted).await;
        // A write that has begun is not called back, and is short: its end is waited for, so that
        // nobody repeats it while it goes on.
        let applying = tools.apply(&context, &call.name, change);
        let answer = self.signals.unless_lost(applying).await?;
        end_call(span, &answer);
        faults::point(Point::CallEnded).await;
        round.take(Ended { is_execution: false, ..ended(position, call, answer, started) });
        Ok(())
    }

    /// Runs a call with effects.
    async fn run_effect(
        &mut self,
        round: &mut Round<'_>,
        position: usize,
        call: &ToolCall,
    ) -> Result<(), Halt> {
        self.start(call, None).await?;
        faults::point(Point::CallStarted).await;
        let (tools, context) = (Arc::clone(&self.worker.parts.tools), self.context.clone());
        let spans = self.call_spans();
        let running = Box::pin(run(&tools, &context, &spans, (position, call)));
        let ended = self.attend(running).await;
        if let Err(Halt::ShuttingDown) = ended {
            // Nobody can know more of it than we do now.
            round.end(position, CallState::Interrupted, INTERRUPTED);
            self.record(round).await?;
        }
        let ended = ended?;
        faults::point(Point::CallEnded).await;
        // The execution was counted when it began.
        round.take(Ended { is_execution: false, is_repeatable: false, ..ended });
        Ok(())
    }

    /// What the file is now that a call may have begun to change.
    async fn file_of(&self, call: &ToolCall, row: Option<&LedgerRow>) -> Option<Option<Vec<u8>>> {
        let (path, _) = row?.change.as_ref()?;
        let context = self.context.of_call(&call.tool_use_id);
        file_hash(&context, path).await
    }

    async fn start(&mut self, call: &ToolCall, change: Option<&FileChange>) -> Result<(), Halt> {
        if faults::has(Bug::NoStarted) {
            return Ok(());
        }
        let change = change.map(|change| ChangeRecord {
            path: change.path.clone(),
            before: change.before.clone(),
            after: hash(&change.content),
            result: change.result.clone(),
        });
        let record = CallRecord {
            is_execution: true,
            change,
            input_hash: Some(hash(call.input.get().as_bytes())),
            ..CallRecord::new(&call.tool_use_id, CallState::Started)
        };
        let recorded_message_seq = self.last_message_seq();
        let recorded = &[record];
        self.store(&[], &StepCommit { recorded_message_seq, recorded, ..StepCommit::default() })
            .await
    }

    /// Stores what has ended so far.
    pub(in crate::worker) async fn record(&mut self, round: &mut Round<'_>) -> Result<(), Halt> {
        if round.answered.records.is_empty() {
            return Ok(());
        }
        let records = std::mem::take(&mut round.answered.records);
        let events = std::mem::take(&mut round.answered.events);
        let notes = std::mem::take(&mut round.answered.notes);
        let step = StepCommit {
            recorded_message_seq: self.last_message_seq(),
            recorded: &records,
            events: &events,
            notes: &notes,
            ..StepCommit::default()
        };
        self.store(&[], &step).await
    }
}

async fn run(
    tools: &Registry,
    context: &ToolContext,
    spans: &CallSpans,
    (position, call): (usize, &ToolCall),
) -> Ended {
    let started = Instant::now();
    let span = spans.begin(call);
    let context = context.of_call(&call.tool_use_id);
    let answer = tools.call(&context, &call.name, &call.input).await;
    end_call(span, &answer);
    ended(position, call, answer, started)
}

pub(in crate::worker) fn ended(
    position: usize,
    call: &ToolCall,
    answer: Answer,
    started: Instant,
) -> Ended {
    let state = if answer.is_error { CallState::Failed } else { CallState::Done };
    let Answer { text, error_type, notes, sources, sandbox, .. } = answer;
    let result = CallResult { error_type, ..CallResult::of_text(&call.tool_use_id, state, text) };
    let duration_ms = millis(started);
    let unrun = Ended::unrun(position, result);
    Ended { is_execution: true, duration_ms, notes, sources, sandbox, ..unrun }
}
