//! Waiting until the model is asked again: after a failure, or while it fails everybody.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep, sleep_until};

use crate::domain::circuit::Circuit;
use crate::domain::event::{EventBody, NewEvent};
use crate::model::ModelError;
use crate::model::upstream::Pass;
use crate::worker::claim::slots::KEPT_FOR;
use crate::worker::run::driver::Driver;
use crate::worker::run::stop_cause::Halt;

/// How long a run waits for a model that fails everybody. Nothing is sent meanwhile.
const GIVE_UP_AFTER: Duration = Duration::from_mins(10);
/// How long a run waits at most before it looks whether somebody else found the model well.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl<'a> Driver<'a> {
    /// Says when the model will be asked again, and waits until then.
    pub(in crate::worker) async fn reschedule(
        &mut self,
        failures: u32,
        delay: Duration,
    ) -> Result<(), Halt> {
        self.tell_rescheduled(failures, delay).await?;
        self.rest(sleep(delay), delay > KEPT_FOR).await
    }

    /// Leave to send a request, as soon as there is one.
    pub(in crate::worker) async fn pass(&mut self, failures: u32) -> Result<Pass<'a>, Halt> {
        let worker = self.worker;
        let breaker = &worker.upstream.breaker;
        let since = Instant::now();
        let mut is_told = false;
        loop {
            let now = Instant::now();
            let until = match breaker.enter(now) {
                Ok(pass) => {
                    worker.parts.metrics.model_circuit(breaker.circuit());
                    return Ok(pass);
                }
                Err(until) => until.unwrap_or(now + LOOK_EVERY),
            };
            let waited = now - since;
            if waited > GIVE_UP_AFTER {
                return Err(Halt::Model(ModelError::ShutOut(waited)));
            }
            if !std::mem::replace(&mut is_told, true) {
                self.tell_rescheduled(failures, until - now).await?;
            }
            let mut changes = breaker.watch();
            let found_well = async {
                // It fails only if the breaker is gone, and this worker has it.
                let _ = changes.wait_for(|circuit| *circuit == Circuit::Closed).await;
            };
            let wait = async {
                tokio::select! {
                    () = found_well => {}
                    () = sleep_until(until) => {}
                }
            };
            self.rest(wait, waited + (until - now) > KEPT_FOR).await?;
        }
    }

    /// Waits, without a place among those that are worked on if it takes long.
    async fn rest(&mut self, wait: impl Future<Output = ()>, is_long: bool) -> Result<(), Halt> {
        if is_long {
            self.slot.give_back();
        }
        let signals = self.signals.clone();
        signals.unless_draining(wait).await?;
        signals.unless_draining(self.slot.take_again()).await
    }

    async fn tell_rescheduled(&mut self, failures: u32, delay: Duration) -> Result<(), Halt> {
        let retry_at = Timestamp::now()
            .checked_add(SignedDuration::try_from(delay).unwrap_or_default())
            .unwrap_or(Timestamp::MAX);
        let event = NewEvent::new(&EventBody::StatusRescheduled { attempt: failures, retry_at });
        self.tell(&[event]).await
    }
}
