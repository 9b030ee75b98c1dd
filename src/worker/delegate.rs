//! Calls that start sub-agents: each starts one and no more, whoever takes the call over finds it
//! again, and its last word is the call's result.

use std::ops::Range;
use std::time::{Duration, Instant};

use sqlx::Connection as _;
use tokio::time::timeout;

use super::drive::{Driver, empty};
use super::halt::Halt;
use super::ledger::ended;
use super::patience::{Patience, in_time};
use super::round::{Ended, Round};
use super::thread::{Looked, Thread};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::run::{RunOptions, RunStatus};
use crate::domain::sub_agent::{Child, Share, SubAgent, Task, report};
use crate::domain::tool::{CallState, INTERRUPTED, ToolCall};
use crate::faults::{self, Point};
use crate::store::budgets::of_session;
use crate::store::runs::Cancellation;
use crate::store::step::{CallRecord, StepCommit};
use crate::store::sub_agents::{ChildRun, NewChild, StoppedChild, stop};
use crate::tools::workspace::hash;
use crate::tools::{Answer, without_nul};

/// Sub-agents of one round that work at a time.
const PARALLEL: usize = 8;
/// How often it is looked at a sub-agent of which nothing is heard.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What the model reads of a call whose sub-agent was stopped with its run.
const STOPPED: &str = "Cancelled: the sub-agent was stopped together with the run that waited for \
    it. What it had done by then stays done.";
/// What the model reads where somebody has deleted the sub-agent's session.
const DELETED: &str = "The sub-agent's session was deleted before it answered.";

/// A call that is to start a sub-agent.
struct Start<'a> {
    call: &'a ToolCall,
    position: usize,
    task: Task,
    agent: SubAgent,
}

impl Driver<'_> {
    /// Has sub-agents do what these calls ask for, and waits for them.
    pub(super) async fn delegate(
        &mut self,
        round: &mut Round<'_>,
        positions: Range<usize>,
    ) -> Result<(), Halt> {
        // What ended before them is stored first: they may stand on it.
        self.record(round).await?;
        let positions: Vec<usize> = positions.collect();
        for positions in positions.chunks(PARALLEL) {
            let threads = self.threads(round, positions).await?;
            self.attend_to(round, threads).await?;
        }
        Ok(())
    }

    /// The sub-agents of these calls: those that an earlier attempt started, and new ones.
    async fn threads(
        &mut self,
        round: &mut Round<'_>,
        positions: &[usize],
    ) -> Result<Vec<Thread>, Halt> {
        let (mut starts, mut threads) = (Vec::new(), Vec::new());
        for &position in positions {
            let Some(row) = round.runnable(position) else { continue };
            let Some(call) = round.calls.get(position) else { continue };
            match row.map(|row| (row.state, row.child_run)) {
                Some((CallState::Started, Some(run_id))) => {
                    match self.found(position, call, run_id).await? {
                        Some(thread) => threads.push(thread),
                        None => self.end_task(round, position, Err(DELETED.to_owned())).await,
                    }
                }
                Some((CallState::Started, None)) => {
                    round.end(position, CallState::Interrupted, INTERRUPTED);
                }
                Some(_) | None => match self.task(call).await {
                    Ok((task, agent)) => starts.push(Start { call, position, task, agent }),
                    Err(answer) => {
                        let failed = ended(position, call, answer, Instant::now());
                        round.take(Ended { is_execution: false, ..failed });
                    }
                },
            }
        }
        threads.extend(self.start_all(&starts).await?);
        Ok(threads)
    }

    /// What a call asks for, and of which sub-agent.
    async fn task(&self, call: &ToolCall) -> Result<(Task, SubAgent), Answer> {
        let context = self.context.of_call(&call.tool_use_id);
        let tools = &self.worker.parts.tools;
        let task = tools.task(&context, &call.name, &call.input).await?;
        let settings = &self.run.settings;
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

    /// Starts sub-agents: their sessions, their runs and what the ledger knows of them are one step.
    async fn start_all(&mut self, starts: &[Start<'_>]) -> Result<Vec<Thread>, Halt> {
        if starts.is_empty() {
            return Ok(Vec::new());
        }
        let share = self.share(starts.len()).await?;
        let (mut children, mut records, mut events) = (Vec::new(), Vec::new(), Vec::new());
        for Start { call, task, agent, .. } in starts {
            let child = Child {
                tool_use_id: call.tool_use_id.clone(),
                session_id: SessionId::new(),
                run_id: RunId::new(),
            };
            records.push(CallRecord {
                is_execution: true,
                input_hash: Some(hash(call.input.get().as_bytes())),
                child_run: Some(child.run_id),
                ..CallRecord::new(&call.tool_use_id, CallState::Started)
            });
            let description = without_nul(task.description.clone());
            events.push(NewEvent::new(&EventBody::ThreadCreated {
                session_thread_id: child.session_id,
                thread_run_id: child.run_id,
                tool_use_id: child.tool_use_id.clone(),
                agent_name: agent.name.clone(),
                description: description.clone(),
            }));
            let trace = self.run.options.trace.clone();
            children.push(NewChild {
                child,
                title: description,
                settings: self.run.settings.for_sub_agent(agent, share)?,
                prompt: without_nul(task.prompt.clone()),
                options: RunOptions { trace, ..RunOptions::default() },
            });
        }
        let step = StepCommit {
            recorded_message_seq: self.last_message_seq(),
            recorded: &records,
            events: &events,
            children: &children,
            ..empty()
        };
        self.store(&[], &step).await?;
        faults::point(Point::CallStarted).await;
        self.worker.parts.bus.announce_work();
        let places = starts.iter().map(|start| start.position).zip(children);
        let bus = &self.worker.parts.bus;
        Ok(places.map(|(position, new)| Thread::new(bus, position, new.child, 0)).collect())
    }

    /// What each of so many sub-agents may take of what the run and the session have left.
    async fn share(&self, parts: usize) -> Result<Share, Halt> {
        let (mut tokens, mut cost) = self.agent.left();
        let budget = self.run.settings.budget;
        if !budget.is_open() {
            let mut patience = Patience::default();
            let standing = loop {
                let read = async {
                    let mut conn = self.worker.parts.pool.acquire().await?;
                    let standing = of_session(&mut conn, self.session_id(), budget).await?;
                    conn.give_back();
                    Ok::<_, Halt>(standing)
                };
                match in_time(read).await {
                    Ok(standing) => break standing,
                    Err(halt) => self.wait_out(&mut patience, halt).await?,
                }
            };
            let left = |budget: Option<i64>, spent: i64| budget.map(|budget| budget - spent);
            tokens = tokens.into_iter().chain(left(budget.tokens, standing.tokens)).min();
            cost = cost.into_iter().chain(left(budget.cost, standing.cost)).min();
        }
        let parts = i64::try_from(parts).unwrap_or(i64::MAX);
        let part = |left: i64| (left / parts).max(1);
        let elapsed = (self.run.elapsed + self.claimed_at.elapsed()).as_secs();
        let elapsed = u32::try_from(elapsed).unwrap_or(u32::MAX);
        let seconds = self.limits.seconds.map(|seconds| seconds.saturating_sub(elapsed).max(1));
        Ok(Share { tokens: tokens.map(part), cost: cost.map(part), seconds })
    }

    /// Tells of what sub-agents do until all of them have ended. Meanwhile this run has no place
    /// among those that are worked on: they need one.
    async fn attend_to(
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
        loop {
            let looked = self.look(&threads).await?;
            let has_more = looked.iter().any(|looked| looked.has_more);
            self.take_news(round, &mut threads, looked).await?;
            if threads.is_empty() {
                break;
            }
            if has_more {
                continue;
            }
            let news = timeout(LOOK_EVERY, Thread::any_news(&mut threads));
            // Whether there was some or not: the database knows.
            let _ = signals.unless_draining(news).await?;
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
                None => self.end_task(round, position, Err(DELETED.to_owned())).await,
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

    async fn end_task(
        &self,
        round: &mut Round<'_>,
        position: usize,
        report: Result<String, String>,
    ) {
        let Some(call) = round.calls.get(position) else { return };
        let context = self.context.of_call(&call.tool_use_id);
        let answer = self.worker.parts.tools.reported(&context, &call.name, report).await;
        let ended = ended(position, call, answer, Instant::now());
        round.take(Ended { is_execution: false, is_repeatable: false, ..ended });
    }

    /// The sub-agent that an earlier attempt started; none if its session was deleted.
    async fn found(
        &self,
        position: usize,
        call: &ToolCall,
        run_id: RunId,
    ) -> Result<Option<Thread>, Halt> {
        let (parent, bus) = ((self.session_id(), self.run_id()), &self.worker.parts.bus);
        let mut patience = Patience::default();
        loop {
            let read = async {
                let mut conn = self.worker.parts.pool.acquire().await?;
                let found = Thread::find(&mut conn, bus, parent, (position, call, run_id)).await?;
                conn.give_back();
                Ok::<_, Halt>(found)
            };
            match in_time(read).await {
                Ok(found) => return Ok(found),
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        }
    }

    /// Stops the sub-agent of a call whose run ends first.
    pub(super) async fn close_task(
        &self,
        round: &mut Round<'_>,
        position: usize,
    ) -> Result<(), Halt> {
        let Some(Some(row)) = round.open(position) else { return Ok(()) };
        let Some(run_id) = row.child_run.filter(|_| row.state == CallState::Started) else {
            return Ok(());
        };
        let mut patience = Patience::default();
        let stopped = loop {
            let asked = async {
                let mut conn = self.worker.parts.pool.acquire().await?;
                let mut transaction = conn.begin().await?;
                let stopped = stop(&mut transaction, run_id).await?;
                transaction.commit().await?;
                conn.give_back();
                Ok::<_, Halt>(stopped)
            };
            match in_time(asked).await {
                Ok(stopped) => break stopped,
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        };
        if let Some(stopped) = stopped {
            self.announce_stop(stopped);
        }
        round.end(position, CallState::Interrupted, STOPPED);
        Ok(())
    }

    /// Tells readers, and the worker that has to do something about it.
    fn announce_stop(&self, stopped: StoppedChild) {
        let StoppedChild { session_id, run_id, met, frames } = stopped;
        let parts = &self.worker.parts;
        parts.bus.publish(session_id, frames);
        match met {
            Cancellation::Requested | Cancellation::Repeated => parts.bus.cancel(run_id),
            Cancellation::Unheld => parts.bus.announce_work(),
            Cancellation::Queued => parts.metrics.run_settled(RunStatus::Cancelled),
            Cancellation::Settled => {}
        }
    }
}
