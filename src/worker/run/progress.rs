//! The progress of a run and its usage.

use std::time::{Duration, Instant};

use super::context::RunContext;
use super::stop_cause::StopCause;
use crate::agent::{AgentLoop, Bounds, Step};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::limits::LimitKind;
use crate::domain::tool::ToolCall;
use crate::domain::usage::{Spending, Usage};

/// The progress of a run and its usage.
#[derive(Debug)]
pub(in crate::worker) struct Progress<'a> {
    run: &'a RunContext<'a>,
    pub(in crate::worker) agent: AgentLoop,
    /// The start of this drive, moved forward by the duration of work that does not count.
    started: Instant,
    /// All that the run has used so far.
    pub(in crate::worker) spent: Spending,
    /// An earlier attempt may have started some of the open calls.
    pub(in crate::worker) is_resumed: bool,
}

impl<'a> Progress<'a> {
    pub(in crate::worker) fn new(run: &'a RunContext<'a>) -> Self {
        let agent = AgentLoop::new(Bounds::new(&run.limits, run.settings().price));
        Self { run, agent, started: Instant::now(), spent: Spending::default(), is_resumed: false }
    }

    /// The duration of the run, over all attempts.
    pub(in crate::worker) fn elapsed(&self) -> Duration {
        self.run.claim.elapsed + self.started.elapsed()
    }

    /// The time at which the limit of seconds is reached, if there is one.
    pub(in crate::worker) fn end_of_time(&self) -> Option<(Instant, u32)> {
        let seconds = self.run.limits.seconds?;
        let left = Duration::from_secs(seconds.into()).saturating_sub(self.run.claim.elapsed);
        Some((self.started.checked_add(left)?, seconds))
    }

    /// True if the last reply is asked for, because a limit is reached.
    pub(in crate::worker) fn is_at_limit(&self) -> bool {
        matches!(self.agent.step(), Step::Exhausted(_))
    }

    /// Excludes work from the duration of the run.
    pub(in crate::worker) fn exclude(&mut self, duration: Duration) {
        self.started += duration;
    }

    /// Applies the time limit and returns whether the loop asks the model next.
    pub(in crate::worker) fn asks_model_next(&mut self) -> bool {
        let limit = self.run.limits.seconds;
        if limit.is_some_and(|seconds| self.elapsed().as_secs() >= u64::from(seconds)) {
            self.agent.exhaust(LimitKind::Seconds);
        }
        matches!(self.agent.step(), Step::CallModel { .. } | Step::Exhausted(_))
    }

    /// True before the first request of the run.
    pub(in crate::worker) fn is_at_first_request(&self) -> bool {
        matches!(self.agent.step(), Step::CallModel { is_first: true })
    }

    /// The calls of the last stored message that have no result yet.
    pub(in crate::worker) fn open_calls(&self) -> Vec<ToolCall> {
        match self.agent.step() {
            Step::CallTools(calls) => calls.clone(),
            Step::CallModel { .. } | Step::Exhausted(_) | Step::Finish(_) => Vec::new(),
        }
    }

    /// Adds one answered request to what the run has used.
    pub(in crate::worker) fn count_request(&mut self, usage: Usage, cost: Option<i64>) {
        self.spent.requests += 1;
        self.spent.usage += usage;
        if let Some(cost) = cost {
            self.spent.cost = Some(self.spent.cost.unwrap_or(0).saturating_add(cost));
        }
    }

    /// Adds a request without a reply to what the run has used.
    pub(in crate::worker) fn count_unanswered(&mut self, usage: Usage, cost: Option<i64>) {
        self.count_request(usage, cost);
        self.spent.requests -= 1;
    }

    /// The event that reports what the run has used.
    pub(in crate::worker) fn usage_event(&self) -> NewEvent {
        NewEvent::new(&EventBody::Usage { usage: self.spent.usage, cost: self.spent.cost })
    }

    /// Stops a run that is not finished when the worker drains. Between a request and a call nothing
    /// is lost by releasing the run.
    pub(in crate::worker) fn stop_if_draining(&self) -> Result<(), StopCause> {
        let is_finished = matches!(self.agent.step(), Step::Finish(_));
        if self.run.signals.drain.is_cancelled() && !is_finished {
            return Err(StopCause::ShuttingDown);
        }
        Ok(())
    }
}
