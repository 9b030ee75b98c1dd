//! Requests to a fallback model, while the model before it is unavailable.

use super::parameters::RequestParameters;
use super::{ModelCalls, RequestEnd, RequestInFlight};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::state_change::StateChange;
use crate::model::{Head, ModelError};
use crate::store::step::StepCommit;
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;

impl<'a> ModelCalls<'a> {
    /// The head of the next request, and its output budget if that is not the session's: those of the
    /// parameters, unless another model is asked since.
    pub(super) fn head_of<'p>(
        &self,
        parameters: &RequestParameters<'p>,
    ) -> Result<(&'p Head, Option<u32>), StopCause>
    where
        'a: 'p,
    {
        if parameters.model == self.run.models.position() {
            return Ok((parameters.head, parameters.max_tokens));
        }
        Ok((self.run.model_head()?, None))
    }

    /// True if another model can answer the request in flight after this error.
    pub(super) fn may_fall_back(&self, error: &ModelError) -> bool {
        let is_answer = self.in_flight.as_ref().is_some_and(RequestInFlight::is_answer);
        is_answer && self.run.models.has_next() && error.is_unavailability()
    }

    /// Records the failed request, and asks the next model from now on. Thinking of the models before is
    /// left out, because only its own model accepts it.
    pub(super) async fn fall_back(
        &mut self,
        state: &mut RunState<'_>,
        error: &ModelError,
    ) -> Result<(), StopCause> {
        state.writer.finish().await?;
        let run = self.run;
        let request = self.record_failure(&mut state.progress, Some(&error.for_clients()));
        let duration_ms = request.as_ref().map_or(0, |request| request.duration_ms);
        let mut events =
            Vec::from_iter(self.end_event(&RequestEnd { duration_ms, ..RequestEnd::default() }));
        let before = run.settings().model.clone();
        run.models.advance();
        let fallback = &run.settings().model;
        tracing::warn!(
            run.id = %run.run_id(), model = before, fallback, %error,
            "model unavailable, the fallback model is asked"
        );
        run.services.metrics.model_fallback();
        state.progress.agent.set_price(run.settings().price);
        let transcript = &state.writer.transcript;
        let is_sent = run.model().server.client.sends_thinking(transcript.messages().text);
        let change = transcript.without_thinking().filter(|_| is_sent);
        events.extend(change.iter().map(|change| NewEvent::new(&EventBody::sent(change.clone()))));
        self.announce(&mut state.progress, &mut events);
        let state_changes: Vec<StateChange> =
            change.into_iter().map(StateChange::SentHistory).collect();
        let (events, request) = (events.as_slice(), request.as_ref());
        let step = StepCommit {
            events,
            request,
            state_changes: &state_changes,
            is_progress: false,
            ..StepCommit::default()
        };
        state.writer.store(&[], &step).await?;
        if state_changes.is_empty() { Ok(()) } else { state.writer.reload_transcript().await }
    }
}
