//! Replies that the output budget truncated within a call: the request is sent once more with a
//! larger budget.

use std::time::Instant;

use super::parameters::RequestParameters;
use super::{ModelCalls, RequestEnd};
use crate::agent::history;
use crate::domain::output_budget::larger;
use crate::domain::session::Settings;
use crate::domain::tool::ToolChoice;
use crate::model::{Head, Reply};
use crate::store::step::StepCommit;
use crate::worker::run::progress::Progress;
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::time::millis_since;

/// A reply and the start of its request.
#[derive(Debug)]
pub(in crate::worker) struct TimedReply {
    pub(in crate::worker) reply: Reply,
    pub(in crate::worker) started: Instant,
}

/// A head with a larger output budget.
struct LargerHead {
    head: Head,
    max_tokens: u32,
}

impl ModelCalls<'_> {
    /// Returns this reply, or the next one if this one was truncated within a call.
    pub(in crate::worker) async fn retry_truncated_call(
        &mut self,
        state: &mut RunState<'_>,
        timed: TimedReply,
        parameters: RequestParameters<'_>,
    ) -> Result<TimedReply, StopCause> {
        let Some(LargerHead { head, max_tokens }) =
            self.larger_head(&state.progress, &timed.reply)?
        else {
            return Ok(timed);
        };
        self.discard(state, timed).await?;
        let choice =
            if state.progress.is_at_limit() { &ToolChoice::None } else { parameters.choice };
        let started = Instant::now();
        let (model, max_tokens) = (self.run.models.position(), Some(max_tokens));
        let parameters = RequestParameters { head: &head, model, choice, max_tokens, ..parameters };
        let reply = self.reply(state, parameters).await?;
        Ok(TimedReply { reply, started })
    }

    /// A head with a larger output budget, if that can help and the limits of the run allow it.
    fn larger_head(
        &self,
        progress: &Progress<'_>,
        reply: &Reply,
    ) -> Result<Option<LargerHead>, StopCause> {
        let is_truncated = history::is_truncated_in_call(&reply.content, &reply.stop)?;
        if !is_truncated || !progress.agent.allows_request_after(self.usage_of(reply)) {
            return Ok(None);
        }
        let settings = self.run.settings();
        let Some(max_tokens) = larger(settings.model_ref().name, settings.max_tokens) else {
            return Ok(None);
        };
        let head = self.run.head(&Settings { max_tokens, ..settings.clone() })?;
        Ok(Some(LargerHead { head, max_tokens }))
    }

    /// Stores the usage of a reply and nothing else of it.
    pub(in crate::worker) async fn discard(
        &mut self,
        state: &mut RunState<'_>,
        TimedReply { reply, started }: TimedReply,
    ) -> Result<(), StopCause> {
        let usage = self.usage_of(&reply);
        state.progress.agent.add_usage(usage);
        let request = self.record_reply(&mut state.progress, &reply);
        let end = RequestEnd { duration_ms: millis_since(started), ..RequestEnd::of(&reply) };
        let mut events = Vec::from_iter(self.end_event(&end));
        self.announce(&mut state.progress, &mut events);
        let (usage, request) = (Some(usage), request.as_ref());
        let step = StepCommit { events: &events, usage, request, ..StepCommit::default() };
        state.writer.store(&[], &step).await
    }
}
