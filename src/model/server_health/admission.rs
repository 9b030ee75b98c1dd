//! The admission of a request while its model may be failing.

use std::time::Duration;

use tokio::sync::SemaphorePermit;
use tokio::time::{Instant, sleep_until};

use super::breaker::Pass;
use super::model_health::ModelHealth;
use crate::domain::circuit::Circuit;

/// The time between looks at the result of the probe in flight.
const RESULT_INTERVAL: Duration = Duration::from_secs(1);

/// The admission of one request. While the circuit breaker is not closed, the requests that wait take
/// turns as probes, first in, first out: no request probes again before the others have.
#[derive(Debug)]
pub struct Admission<'a> {
    health: &'a ModelHealth,
    turn: Option<SemaphorePermit<'a>>,
}

/// A request that is not admitted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotYet {
    /// The earliest time of the next probe.
    pub until: Instant,
}

impl<'a> Admission<'a> {
    /// The admission of a request to this model.
    pub const fn of(health: &'a ModelHealth) -> Self {
        Self { health, turn: None }
    }

    /// Admits the request, or returns when the next probe is due.
    pub fn enter(&mut self, now: Instant) -> Result<Pass<'a>, NotYet> {
        let ModelHealth { breaker, turn, .. } = self.health;
        if self.turn.is_none() && breaker.circuit() != Circuit::Closed {
            self.turn = turn.try_acquire().ok();
            if self.turn.is_none() {
                return Err(NotYet { until: breaker.next_probe(now) });
            }
        }
        let pass = breaker.enter(now).map_err(|until| NotYet { until })?;
        self.turn = None;
        Ok(pass)
    }

    /// Waits until [`Self::enter`] may admit the request: the circuit is closed, or this request
    /// comes next and a probe is due. Cancel safe.
    pub async fn wait(&mut self) {
        let ModelHealth { breaker, turn, .. } = self.health;
        let mut changes = breaker.watch();
        loop {
            let (has_turn, now) = (self.turn.is_some(), Instant::now());
            let due = breaker.next_probe(now);
            if has_turn && due <= now {
                return;
            }
            // The probe in flight may end before its time.
            let due = due.min(now + RESULT_INTERVAL);
            tokio::select! {
                // An error would mean that the breaker is dropped, but it is borrowed here.
                _ = changes.wait_for(|circuit| *circuit == Circuit::Closed) => return,
                () = sleep_until(due), if has_turn => {}
                permit = turn.acquire(), if !has_turn => self.turn = permit.ok(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;
    use futures::future::join_all;

    use super::*;
    use crate::model::server_health::Health;

    /// Fails requests until the circuit opens, and returns when the first probe is due.
    fn opened(health: &ModelHealth, now: Instant) -> Instant {
        loop {
            match Admission::of(health).enter(now) {
                Ok(mut pass) => pass.report(Health::Unhealthy, now),
                Err(NotYet { until }) => return until,
            }
        }
    }

    #[tokio::test]
    async fn waiting_requests_probe_in_the_order_of_their_arrival() {
        let health = ModelHealth::default();
        let due = opened(&health, Instant::now());
        let mut admissions = [(); 3].map(|()| Admission::of(&health));
        let [first, second, third] = &mut admissions;
        for waiting in [&mut *first, &mut *second, &mut *third] {
            assert_eq!(waiting.enter(due - Duration::from_millis(1)).unwrap_err().until, due);
        }
        let mut second_wait = Box::pin(second.wait());
        let mut third_wait = Box::pin(third.wait());
        assert!(second_wait.as_mut().now_or_never().is_none());
        assert!(third_wait.as_mut().now_or_never().is_none());
        // A request that arrives now is not preferred to those that wait.
        Admission::of(&health).enter(due).unwrap_err();
        let mut probe = first.enter(due).unwrap();
        probe.report(Health::Unhealthy, due);
        for waiting in [second_wait.as_mut(), third_wait.as_mut()] {
            assert!(waiting.now_or_never().is_none(), "the next probe is not due yet");
        }
        drop((second_wait, third_wait));
        let next = health.breaker.next_probe(due);
        third.enter(next).unwrap_err();
        second.enter(next).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn all_waiting_requests_are_admitted_when_a_probe_succeeds() {
        let health = Arc::new(ModelHealth::default());
        let due = opened(&health, Instant::now());
        let waiting = (0..5).map(async |_| {
            let mut admission = Admission::of(&health);
            loop {
                match admission.enter(Instant::now()) {
                    Ok(mut pass) => break pass.report(Health::Healthy, Instant::now()),
                    Err(_) => admission.wait().await,
                }
            }
            Instant::now()
        });
        for admitted in join_all(waiting).await {
            let late = admitted - due;
            assert!(late < Duration::from_millis(10), "{late:?}");
        }
    }
}
