//! Requests and replies that do not fit into the model's context window: the history is compacted, and
//! the run goes on.

use std::time::Instant;

use super::earlier_messages::EarlierMessages;
use super::{Compactor, sizes, summarize_up_to};
use crate::domain::stop_reason::ModelStop;
use crate::model::{Head, ModelError, Reply};
use crate::store::step::StepCommit;
use crate::worker::model_call::ModelCalls;
use crate::worker::model_call::parameters::RequestParameters;
use crate::worker::model_call::truncated_call::TimedReply;
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;

/// A request or a reply that does not fit into the model's context window.
enum Overflow {
    Refused(ModelError),
    Truncated(Box<TimedReply>),
}

impl Compactor {
    /// Sends a request of the loop. If it is too long, or its reply does not fit, the history is
    /// compacted and the request is sent again, as long as there are messages to summarize.
    pub(in crate::worker) async fn reply(
        &mut self,
        state: &mut RunState<'_>,
        model: &mut ModelCalls<'_>,
        parameters: RequestParameters<'_>,
    ) -> Result<Reply, StopCause> {
        loop {
            let started = Instant::now();
            let overflow = match model.reply(state, parameters).await {
                Err(StopCause::Model(error)) if error.is_too_long() => Overflow::Refused(error),
                Ok(reply) if reply.stop == ModelStop::ModelContextWindowExceeded => {
                    Overflow::Truncated(Box::new(TimedReply { reply, started }))
                }
                ended => return ended,
            };
            if !self.may_shorten(state) {
                return overflow.into_result();
            }
            let error = Box::pin(overflow.record(state, model)).await?;
            let is_shorter = Box::pin(self.shorten(state, model, parameters.head)).await?;
            if let Some(error) = error.filter(|_| !is_shorter) {
                return Err(StopCause::Model(error));
            }
        }
    }

    /// True if a request that is too long may become shorter.
    fn may_shorten(&self, state: &RunState<'_>) -> bool {
        if state.progress.is_at_first_request() {
            return self.may_compact(state);
        }
        let is_enabled = state.run.settings().context.compact_at.is_some();
        is_enabled && !self.has_failed
    }

    /// Compacts the history of a request that is too long. Returns true on success.
    async fn shorten(
        &mut self,
        state: &mut RunState<'_>,
        model: &mut ModelCalls<'_>,
        head: &Head,
    ) -> Result<bool, StopCause> {
        let sizes = sizes(&state.writer, head);
        let earlier = EarlierMessages::read(state.run, &state.writer, sizes).await?;
        let tokens = earlier.estimated_tokens();
        if state.progress.is_at_first_request() {
            return self.summarize(state, model, &earlier, tokens).await;
        }
        let ends = earlier.ends_within_run();
        let is_done = summarize_up_to(&ends, state, model, (&earlier, tokens)).await?;
        self.has_failed = !is_done;
        Ok(is_done)
    }
}

impl Overflow {
    /// The result of the request if it cannot be sent again.
    fn into_result(self) -> Result<Reply, StopCause> {
        match self {
            Self::Refused(error) => Err(StopCause::Model(error)),
            Self::Truncated(timed) => Ok(timed.reply),
        }
    }

    /// Stores what the request used. Returns its error, if it was refused.
    async fn record(
        self,
        state: &mut RunState<'_>,
        model: &mut ModelCalls<'_>,
    ) -> Result<Option<ModelError>, StopCause> {
        let error = match self {
            Self::Refused(error) => error,
            Self::Truncated(timed) => {
                model.discard(state, *timed).await?;
                return Ok(None);
            }
        };
        let request = model.record_failure(&mut state.progress, Some(&error.for_clients()));
        let request = request.as_ref();
        let mut events = Vec::new();
        model.report_replaced(&mut state.progress, &mut events);
        let (events, is_progress) = (events.as_slice(), false);
        let step = StepCommit { events, request, is_progress, ..StepCommit::default() };
        state.writer.store(&[], &step).await?;
        Ok(Some(error))
    }
}
