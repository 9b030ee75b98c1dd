//! Final replies that call a tool instead of answering: the request is sent once more.

use std::time::Instant;

use super::ModelCalls;
use super::parameters::RequestParameters;
use super::truncated_call::TimedReply;
use crate::agent::history;
use crate::domain::tool::ToolChoice;
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;

impl ModelCalls<'_> {
    /// Returns this reply, or the next one if this one calls a tool, a limit allows no calls, and it
    /// has no text. The tools stay defined, because the history has calls of them.
    pub(in crate::worker) async fn retry_silent_answer(
        &mut self,
        state: &mut RunState<'_>,
        timed: TimedReply,
        parameters: RequestParameters<'_>,
    ) -> Result<TimedReply, StopCause> {
        let TimedReply { reply, .. } = &timed;
        let is_final = state.progress.agent.is_final();
        if !is_final || !history::is_call_without_text(&reply.content, &reply.stop)? {
            return Ok(timed);
        }
        tracing::info!(
            run.id = %self.run.run_id(),
            "model called a tool in its final reply, request sent once more"
        );
        self.discard(state, timed).await?;
        let started = Instant::now();
        let parameters = RequestParameters { choice: &ToolChoice::None, ..parameters };
        let reply = self.reply(state, parameters).await?;
        Ok(TimedReply { reply, started })
    }
}
