//! Waits before a request is sent again: after a failure, or while the circuit breaker is open.

use std::time::Duration;

use futures::FutureExt as _;
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep, timeout_at};

use super::ModelCalls;
use super::deadline::RequestDeadline;
use crate::domain::circuit::Circuit;
use crate::domain::event::{EventBody, NewEvent};
use crate::model::server_health::{Admission, Pass};
use crate::model::{ModelError, RequestPermit};
use crate::worker::run::slot::SLOT_KEPT_FOR;
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;

/// Longest time that a run waits for an open circuit breaker. Nothing is sent meanwhile.
const GIVE_UP_AFTER: Duration = Duration::from_mins(10);

impl<'a> ModelCalls<'a> {
    /// Announces the next try and waits for it.
    pub(super) async fn reschedule(
        &self,
        state: &mut RunState<'_>,
        failures: u32,
        delay: Duration,
        deadline: RequestDeadline,
    ) -> Result<(), StopCause> {
        announce_retry(state, failures, delay).await?;
        let is_open = self.run.model().health.breaker.circuit() != Circuit::Closed;
        wait(state, deadline.limit(sleep(delay)), is_open || delay > SLOT_KEPT_FOR).await
    }

    /// Waits until the circuit breaker of the model permits a request. The run holds no slot
    /// meanwhile.
    pub(super) async fn permit(
        &self,
        state: &mut RunState<'_>,
        failures: u32,
        deadline: RequestDeadline,
    ) -> Result<Pass<'a>, StopCause> {
        let services = self.run.services;
        let mut admission = Admission::of(&self.run.model().health);
        let since = Instant::now();
        let mut is_announced = false;
        loop {
            let now = Instant::now();
            let not_yet = match admission.enter(now) {
                Ok(pass) => {
                    services.report_circuit(self.run.model().server, now);
                    return Ok(pass);
                }
                Err(not_yet) => not_yet,
            };
            let waited = now - since;
            if waited >= GIVE_UP_AFTER || self.may_fall_back(&ModelError::CircuitOpen(waited)) {
                return Err(StopCause::Model(ModelError::CircuitOpen(waited)));
            }
            if !std::mem::replace(&mut is_announced, true) {
                announce_retry(state, failures, not_yet.until.saturating_duration_since(now))
                    .await?;
            }
            let admitted = admission.wait();
            let admitted = timeout_at(since + GIVE_UP_AFTER, admitted).map(drop);
            wait(state, deadline.limit(admitted), true).await?;
        }
    }
}

impl ModelCalls<'_> {
    /// Waits until the limit of the provider's requests at once permits one; none without a limit. The
    /// run holds no slot meanwhile.
    pub(super) async fn request_permit(
        &self,
        state: &mut RunState<'_>,
        deadline: RequestDeadline,
    ) -> Result<Option<RequestPermit>, StopCause> {
        let Some(limit) = &self.run.model().server.limit else { return Ok(None) };
        if let Some(permit) = limit.try_acquire() {
            return Ok(Some(permit));
        }
        let mut permit = None;
        let acquired = limit.acquire(self.run.claim.tenant).map(|own| permit = Some(own));
        wait(state, deadline.limit(acquired), true).await?;
        Ok(permit)
    }
}

/// Waits, and releases the slot of the run during a long wait.
async fn wait(
    state: &mut RunState<'_>,
    wait: impl Future<Output = Result<(), ModelError>>,
    is_long: bool,
) -> Result<(), StopCause> {
    if is_long {
        state.slot.release();
    }
    let signals = &state.run.signals;
    signals.unless_draining(wait).await?.map_err(StopCause::Model)?;
    signals.unless_draining(state.slot.reacquire()).await
}

async fn announce_retry(
    state: &mut RunState<'_>,
    failures: u32,
    delay: Duration,
) -> Result<(), StopCause> {
    let retry_at = Timestamp::now()
        .checked_add(SignedDuration::try_from(delay).unwrap_or_default())
        .unwrap_or(Timestamp::MAX);
    let event = NewEvent::new(&EventBody::StatusRescheduled { attempt: failures, retry_at });
    state.writer.store_events(&[event]).await
}
