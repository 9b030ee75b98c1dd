//! Calls that start sub-agents: each starts one and no more, whoever takes the call over finds it
//! again, and its last word is the call's result.

use std::ops::Range;
use std::time::Instant;

use crate::domain::event::{EventBody, NewEvent};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::run::RunOptions;
use crate::domain::sub_agent::{Child, Share, SubAgent, Task};
use crate::domain::tool::{CallState, INTERRUPTED, ToolCall};
use crate::faults::{self, Point};
use crate::store::budgets::of_session;
use crate::store::step::{CallRecord, StepCommit};
use crate::store::sub_agents::NewChild;
use crate::tools::workspace::hash;
use crate::tools::{Answer, without_nul};
use crate::worker::run::database_retry::{Patience, in_time};
use crate::worker::run::driver::{Driver, empty};
use crate::worker::run::stop_cause::Halt;
use crate::worker::sub_agents::relay::Thread;
use crate::worker::tool_round::execute::ended;
use crate::worker::tool_round::plan::{Ended, Round};

/// Sub-agents of one round that work at a time.
const PARALLEL: usize = 8;

/// A call that is to start a sub-agent.
struct Start<'a> {
    call: &'a ToolCall,
    position: usize,
    task: Task,
    agent: SubAgent,
}

impl Driver<'_> {
    /// Has sub-agents do what these calls ask for, and waits for them.
    pub(in crate::worker) async fn delegate(
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
                        None => self.lose_task(round, position).await,
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
            let trace = self.run.options.trace;
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
}
