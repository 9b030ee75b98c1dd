//! Waits before a request is sent again: after a failure, or while the circuit breaker is open.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep, sleep_until};

use super::ModelCalls;
use super::deadline::RequestDeadline;
use crate::domain::circuit::Circuit;
use crate::domain::event::{EventBody, NewEvent};
use crate::model::ModelError;
use crate::model::server_health::Pass;
use crate::worker::run::slot::SLOT_KEPT_FOR;
use crate::worker::run::state::RunState;
use crate::worker::run::stop_cause::StopCause;

/// Longest time that a run waits for an open circuit breaker. Nothing is sent meanwhile.
const GIVE_UP_AFTER: Duration = Duration::from_mins(10);
/// Longest wait for another run's trial request before the breaker is asked again.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(1);

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
        wait(state, deadline.limit(sleep(delay)), delay > SLOT_KEPT_FOR).await
    }

    /// Waits until the circuit breaker permits a request.
    pub(super) async fn permit(
        &self,
        state: &mut RunState<'_>,
        failures: u32,
        deadline: RequestDeadline,
    ) -> Result<Pass<'a>, StopCause> {
        let services = self.run.services;
        let breaker = &services.server_health.breaker;
        let since = Instant::now();
        let mut is_announced = false;
        loop {
            let now = Instant::now();
            let until = match breaker.enter(now) {
                Ok(pass) => {
                    services.metrics.model_circuit(breaker.circuit());
                    return Ok(pass);
                }
                Err(until) => until.unwrap_or(now + TRIAL_TIMEOUT),
            };
            let waited = now - since;
            if waited > GIVE_UP_AFTER {
                return Err(StopCause::Model(ModelError::CircuitOpen(waited)));
            }
            if !std::mem::replace(&mut is_announced, true) {
                announce_retry(state, failures, until - now).await?;
            }
            let mut changes = breaker.watch();
            let closed = async {
                // An error would mean that the breaker is dropped, but this run's services own it.
                let _ = changes.wait_for(|circuit| *circuit == Circuit::Closed).await;
            };
            let closed_or_due = async {
                tokio::select! {
                    () = closed => {}
                    () = sleep_until(until) => {}
                }
            };
            let is_long = waited + (until - now) > SLOT_KEPT_FOR;
            wait(state, deadline.limit(closed_or_due), is_long).await?;
        }
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
