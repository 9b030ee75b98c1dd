//! The time until which a request to the model must be answered.

use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::{Instant, timeout_at};

use super::{ModelCalls, RequestEnd};
use crate::domain::limits::LimitKind;
use crate::model::ModelError;
use crate::store::step::StepCommit;
use crate::worker::run::progress::Progress;
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;

/// A time that no request takes.
const FAR: Duration = Duration::from_hours(24 * 365);
/// The minimum time for the answer of a run that has reached a limit.
const MIN_FINAL: Duration = Duration::from_secs(10);

/// The time until which a request must be answered, and the limit of the run in seconds. `None` if
/// the time is not limited.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestDeadline(Option<(Instant, u32)>);

impl RequestDeadline {
    /// A request that is not part of the run's own work: a summary, or a request of a tool, which has
    /// a deadline of its own.
    pub(super) const NONE: Self = Self(None);

    /// The deadline of a request of the loop: the end of the run's time. The last request of a run
    /// at a limit has as much time again.
    pub(super) fn of(progress: &Progress<'_>) -> Self {
        let Some((end, seconds)) = progress.end_of_time() else { return Self::NONE };
        let end = Instant::from_std(end);
        if !progress.is_at_limit() {
            return Self(Some((end, seconds)));
        }
        let time = Duration::from_secs(seconds.into()).max(MIN_FINAL);
        let end = end.max(Instant::now()).checked_add(time);
        Self(end.map(|end| (end, seconds)))
    }

    /// Runs `work` until the deadline. Not an `async fn`, which would hold `work` twice.
    pub(super) fn limit<T>(
        self,
        work: impl Future<Output = T>,
    ) -> impl Future<Output = Result<T, ModelError>> {
        let (end, seconds) = self.0.unwrap_or_else(|| (Instant::now() + FAR, 0));
        timeout_at(end, work).map(move |done| done.map_err(|_| ModelError::TimeLimit(seconds)))
    }
}

impl ModelCalls<'_> {
    /// Records a request that the limit of seconds ended. The run then has one more request for its
    /// answer, unless this was it.
    pub(in crate::worker) async fn end_at_time_limit(
        &mut self,
        state: &mut RunState<'_>,
        ended: Result<(), StopCause>,
    ) -> Result<(), StopCause> {
        let error = match ended {
            Err(StopCause::Model(error @ ModelError::TimeLimit(_)))
                if !state.progress.is_at_limit() =>
            {
                error
            }
            ended => return ended,
        };
        let request = self.record_failure(&mut state.progress, Some(&error.for_clients()));
        let duration_ms = request.as_ref().map_or(0, |request| request.duration_ms);
        let mut events =
            Vec::from_iter(self.end_event(&RequestEnd { duration_ms, ..RequestEnd::default() }));
        state.progress.agent.exhaust(LimitKind::Seconds);
        self.announce(&mut state.progress, &mut events);
        let step =
            StepCommit { events: &events, request: request.as_ref(), ..StepCommit::default() };
        state.writer.store(&[], &step).await
    }
}
