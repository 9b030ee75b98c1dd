//! A circuit breaker: it stops requests to a failing server for a while, then sends one probe.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::domain::circuit::Circuit;
use crate::model::error::{ErrorKind, ModelError};

/// The configuration for model servers: it takes more failures than the tries of a single run.
const MODEL_SERVERS: BreakerConfig = BreakerConfig {
    failures: 10,
    first_open: Duration::from_secs(1),
    longest_open: Duration::from_secs(30),
    probe_patience: Duration::from_secs(15),
};

/// The configuration of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerConfig {
    /// The number of consecutive failures that open the circuit.
    pub failures: u32,
    /// The time for which the circuit stays open at first.
    pub first_open: Duration,
    /// The maximum of this time, which doubles with each failed probe.
    pub longest_open: Duration,
    /// The time after which another probe is sent although the one before has no result yet.
    pub probe_patience: Duration,
}

/// The health of a server, as one request observed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// The server responds.
    Healthy,
    /// The server is overloaded or unreachable.
    Unhealthy,
}

impl Health {
    /// Returns the health that an error shows. A server that rejects requests or limits our rate is
    /// healthy.
    pub fn of(error: &ModelError) -> Self {
        match error {
            ModelError::Connect(_)
            | ModelError::Broken(_)
            | ModelError::Truncated
            | ModelError::Idle(_)
            | ModelError::NoContent(_) => Self::Unhealthy,
            ModelError::Api { kind, .. } => match kind {
                ErrorKind::Overloaded | ErrorKind::Api | ErrorKind::Timeout => Self::Unhealthy,
                ErrorKind::InvalidRequest
                | ErrorKind::Authentication
                | ErrorKind::Billing
                | ErrorKind::Permission
                | ErrorKind::NotFound
                | ErrorKind::Conflict
                | ErrorKind::RequestTooLarge
                | ErrorKind::RateLimit
                | ErrorKind::SpendLimit
                | ErrorKind::Other(_) => Self::Healthy,
            },
            // Requests fail at once without the circuit breaker, and with the cause.
            ModelError::Certificate(_)
            | ModelError::TimeLimit(_)
            | ModelError::Malformed(_)
            | ModelError::BadCall(_)
            | ModelError::TooLarge(_)
            | ModelError::CircuitOpen(_)
            | ModelError::UnknownProvider(_) => Self::Healthy,
        }
    }
}

/// A circuit breaker for one server.
#[derive(Debug)]
pub struct Breaker {
    config: BreakerConfig,
    state: Mutex<State>,
    circuit: watch::Sender<Circuit>,
}

#[derive(Debug)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
        open_for: Duration,
    },
    /// One request, the probe, is in flight.
    Probing {
        open_for: Duration,
        since: Instant,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new(MODEL_SERVERS)
    }
}

impl Breaker {
    /// Creates a closed breaker with this configuration.
    pub fn new(config: BreakerConfig) -> Self {
        let state = Mutex::new(State::Closed { failures: 0 });
        Self { config, state, circuit: watch::channel(Circuit::Closed).0 }
    }

    /// Admits a request, or returns when the next one may be admitted.
    pub fn enter(&self, now: Instant) -> Result<Pass<'_>, Instant> {
        let mut state = self.state();
        let next = self.next_probe_in(&state, now);
        let is_probe = match *state {
            State::Closed { .. } => false,
            State::Open { .. } | State::Probing { .. } if now < next => return Err(next),
            State::Open { open_for, .. } | State::Probing { open_for, .. } => {
                self.change(&mut state, State::Probing { open_for, since: now });
                true
            }
        };
        Ok(Pass { breaker: self, is_probe, is_reported: false })
    }

    /// The earliest time of the next probe, or now if the circuit is closed.
    pub(super) fn next_probe(&self, now: Instant) -> Instant {
        self.next_probe_in(&self.state(), now)
    }

    fn next_probe_in(&self, state: &State, now: Instant) -> Instant {
        match *state {
            State::Closed { .. } => now,
            State::Open { until, .. } => until,
            State::Probing { since, .. } => since + self.config.probe_patience,
        }
    }

    /// Returns true if the circuit is closed and the last request did not fail.
    pub(super) fn is_unimpaired(&self) -> bool {
        matches!(*self.state(), State::Closed { failures: 0 })
    }

    /// The state of the circuit.
    pub fn circuit(&self) -> Circuit {
        *self.circuit.borrow()
    }

    /// A receiver of the state and its changes.
    pub fn watch(&self) -> watch::Receiver<Circuit> {
        self.circuit.subscribe()
    }

    fn record(&self, is_probe: bool, health: Health, now: Instant) {
        let BreakerConfig { failures: limit, first_open, longest_open, .. } = self.config;
        let mut state = self.state();
        let next = match (&*state, health) {
            (State::Closed { failures }, Health::Unhealthy) if failures + 1 < limit => {
                State::Closed { failures: failures + 1 }
            }
            (State::Closed { .. }, Health::Unhealthy) => {
                State::Open { until: now + first_open, open_for: first_open }
            }
            // Requests sent before the circuit opened do not count.
            (State::Open { .. }, _) => return,
            (State::Probing { .. }, _) if !is_probe => return,
            (State::Closed { .. } | State::Probing { .. }, Health::Healthy) => {
                State::Closed { failures: 0 }
            }
            (State::Probing { open_for, .. }, Health::Unhealthy) => {
                let open_for = (*open_for * 2).min(longest_open);
                State::Open { until: now + open_for, open_for }
            }
        };
        self.change(&mut state, next);
    }

    /// Reopens the circuit for the next probe after a probe was dropped without a result.
    fn release_probe(&self, now: Instant) {
        let mut state = self.state();
        if let State::Probing { open_for, .. } = *state {
            self.change(&mut state, State::Open { until: now, open_for });
        }
    }

    fn change(&self, state: &mut State, next: State) {
        *state = next;
        let circuit = match state {
            State::Closed { .. } => Circuit::Closed,
            State::Open { .. } => Circuit::Open,
            State::Probing { .. } => Circuit::HalfOpen,
        };
        self.circuit.send_if_modified(|known| std::mem::replace(known, circuit) != circuit);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The admission of a request, until its result is known.
#[derive(Debug)]
pub struct Pass<'a> {
    breaker: &'a Breaker,
    is_probe: bool,
    is_reported: bool,
}

impl Pass<'_> {
    /// Reports the result of the request. Only the first report counts: a server that begins to
    /// reply is healthy, whatever happens to the rest of the reply.
    pub fn report(&mut self, health: Health, now: Instant) {
        if !std::mem::replace(&mut self.is_reported, true) {
            self.breaker.record(self.is_probe, health, now);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_probe && !self.is_reported {
            self.breaker.release_probe(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A breaker that has been opened by failures.
    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::default();
        for _ in 0..MODEL_SERVERS.failures {
            breaker.enter(now).unwrap().report(Health::Unhealthy, now);
        }
        breaker
    }

    #[test]
    fn consecutive_failures_open_the_circuit_and_a_success_resets_the_count() {
        let now = Instant::now();
        let breaker = Breaker::default();
        for health in [Health::Unhealthy, Health::Healthy, Health::Unhealthy] {
            for _ in 1..MODEL_SERVERS.failures {
                breaker.enter(now).unwrap().report(health, now);
            }
        }
        assert_eq!(breaker.circuit(), Circuit::Closed);
        breaker.enter(now).unwrap().report(Health::Unhealthy, now);
        assert_eq!(breaker.circuit(), Circuit::Open);
        assert_eq!(breaker.enter(now).unwrap_err(), now + MODEL_SERVERS.first_open);
    }

    #[test]
    fn one_probe_is_sent_while_other_requests_wait() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = start + MODEL_SERVERS.first_open;
        let mut probe = breaker.enter(now).unwrap();
        assert_eq!(breaker.circuit(), Circuit::HalfOpen);
        assert_eq!(breaker.enter(now).unwrap_err(), now + MODEL_SERVERS.probe_patience);
        probe.report(Health::Healthy, now);
        assert_eq!(breaker.circuit(), Circuit::Closed);
        breaker.enter(now).unwrap();
    }

    #[test]
    fn the_open_period_doubles_up_to_half_a_minute() {
        let mut now = Instant::now();
        let breaker = opened(now);
        let mut open_periods = Vec::new();
        for _ in 0..7 {
            let until = breaker.enter(now).unwrap_err();
            open_periods.push((until - now).as_secs());
            now = until;
            breaker.enter(now).unwrap().report(Health::Unhealthy, now);
        }
        assert_eq!(open_periods, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn a_probe_without_a_result_does_not_keep_the_circuit_open() {
        let start = Instant::now();
        let breaker = opened(start);
        let first = start + MODEL_SERVERS.first_open;
        let _stalled = breaker.enter(first).unwrap();
        let second = first + MODEL_SERVERS.probe_patience;
        breaker.enter(second).unwrap().report(Health::Healthy, second);
        assert_eq!(breaker.circuit(), Circuit::Closed);
    }

    #[test]
    fn after_a_dropped_probe_another_request_probes() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = start + MODEL_SERVERS.first_open;
        drop(breaker.enter(now).unwrap());
        assert_eq!(breaker.circuit(), Circuit::Open);
        let later = Instant::now() + MODEL_SERVERS.first_open;
        breaker.enter(later).unwrap();
    }

    #[test]
    fn results_of_requests_from_before_the_opening_are_ignored() {
        let now = Instant::now();
        let breaker = Breaker::default();
        let mut early = breaker.enter(now).unwrap();
        for _ in 0..MODEL_SERVERS.failures {
            breaker.enter(now).unwrap().report(Health::Unhealthy, now);
        }
        early.report(Health::Healthy, now);
        assert_eq!(breaker.circuit(), Circuit::Open);
    }
}
