//! The start of calls, and of those that are quick before their reply is stored.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};

use super::execute::ToolRunner;
use super::plan::EndedCall;
use super::quick_calls::QuickCalls;
use super::single_call::{SingleCall, run_tool};
use super::spans::CallSpans;
use crate::domain::tool::{PARALLEL_CALLS, ToolCall};
use crate::faults::{self, Bug};
use crate::tools::RunLimit;
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;

impl ToolRunner<'_> {
    /// Starts the calls of a reply that is not stored yet, if all of them are quick, have no effects and
    /// may run without an answer.
    pub(in crate::worker) fn start_quick(
        &mut self,
        state: &RunState<'_>,
        calls: &[ToolCall],
    ) -> Result<Option<QuickCalls>, StopCause> {
        let tools = &self.run.services.tools;
        let are_quick = calls.iter().all(|call| tools.is_quick(&call.name));
        let is_round = (1..=PARALLEL_CALLS).contains(&calls.len()) && are_quick;
        if !is_round || faults::has(Bug::SplitCommit) {
            return Ok(None);
        }
        if !self.gate.allows_all(&state.writer, &mut self.context, calls)? {
            return Ok(None);
        }
        self.limit_time(state);
        let start = |(position, call)| self.start(position, call);
        Ok(Some(QuickCalls::new(calls.iter().enumerate().map(start))))
    }

    /// Stops the calls at the limit of seconds of the run.
    pub(super) fn limit_time(&mut self, state: &RunState<'_>) {
        let limit = state.progress.end_of_time();
        self.context.run_limit = limit.map(|(at, seconds)| RunLimit { at: at.into(), seconds });
    }

    /// A call that starts when it is polled.
    pub(super) fn start(&self, position: usize, call: &ToolCall) -> BoxFuture<'static, EndedCall> {
        let (tools, context) = (Arc::clone(&self.run.services.tools), self.context.clone());
        let (spans, call) = (CallSpans::new(self.run), call.clone());
        async move {
            let single = SingleCall { position, call: &call };
            run_tool(&tools, &context, &spans, single).await
        }
        .boxed()
    }
}
