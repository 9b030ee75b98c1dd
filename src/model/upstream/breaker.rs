//! A circuit breaker: it stops requests to a failing server for a while, then sends one probe.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::domain::circuit::Circuit;
use crate::model::{ErrorKind, ModelError};

/// The configuration for model servers: it takes more failures than the tries of a single run.
const MODEL_SERVERS: Endurance = Endurance {
    failures: 10,
    first_rest: Duration::from_secs(1),
    longest_rest: Duration::from_secs(30),
};

/// The configuration of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endurance {
    /// The number of consecutive failures that open the circuit.
    pub failures: u32,
    /// How long the circuit stays open at first.
    pub first_rest: Duration,
    /// The limit of that duration, which doubles with each failed probe.
    pub longest_rest: Duration,
}

/// The health of a server, as one request observed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The server responds.
    Well,
    /// The server is overloaded or unreachable.
    Ill,
}

impl Verdict {
    /// The health that an error shows. A server that rejects requests or limits our rate is
    /// healthy.
    pub fn of(error: &ModelError) -> Self {
        match error {
            ModelError::Connect(_)
            | ModelError::Broken(_)
            | ModelError::Truncated
            | ModelError::Idle(_) => Self::Ill,
            ModelError::Api { kind, .. } => match kind {
                ErrorKind::Overloaded | ErrorKind::Api | ErrorKind::Timeout => Self::Ill,
                ErrorKind::InvalidRequest
                | ErrorKind::Authentication
                | ErrorKind::Billing
                | ErrorKind::Permission
                | ErrorKind::NotFound
                | ErrorKind::Conflict
                | ErrorKind::RequestTooLarge
                | ErrorKind::RateLimit
                | ErrorKind::SpendLimit
                | ErrorKind::Other(_) => Self::Well,
            },
            ModelError::Malformed(_) | ModelError::TooLarge(_) | ModelError::ShutOut(_) => {
                Self::Well
            }
        }
    }
}

/// A circuit breaker for one server.
#[derive(Debug)]
pub struct Breaker {
    endurance: Endurance,
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
        rest: Duration,
    },
    /// One request, the probe, is in flight.
    Probing {
        rest: Duration,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new(MODEL_SERVERS)
    }
}

impl Breaker {
    /// Creates a closed breaker with this configuration.
    pub fn new(endurance: Endurance) -> Self {
        let state = Mutex::new(State::Closed { failures: 0 });
        Self { endurance, state, circuit: watch::channel(Circuit::Closed).0 }
    }

    /// Admits a request, or returns when the next one may be admitted; `None` while a probe is in
    /// flight.
    pub fn enter(&self, now: Instant) -> Result<Pass<'_>, Option<Instant>> {
        let mut state = self.state();
        let is_probe = match *state {
            State::Closed { .. } => false,
            State::Open { until, .. } if now < until => return Err(Some(until)),
            State::Probing { .. } => return Err(None),
            State::Open { rest, .. } => {
                self.change(&mut state, State::Probing { rest });
                true
            }
        };
        Ok(Pass { breaker: self, is_probe, is_reported: false })
    }

    /// The state of the circuit.
    pub fn circuit(&self) -> Circuit {
        *self.circuit.borrow()
    }

    /// A receiver of the state and its changes.
    pub fn watch(&self) -> watch::Receiver<Circuit> {
        self.circuit.subscribe()
    }

    fn record(&self, is_probe: bool, verdict: Verdict, now: Instant) {
        let Endurance { failures: most, first_rest, longest_rest } = self.endurance;
        let mut state = self.state();
        let next = match (&*state, verdict) {
            (State::Closed { failures }, Verdict::Ill) if failures + 1 < most => {
                State::Closed { failures: failures + 1 }
            }
            (State::Closed { .. }, Verdict::Ill) => {
                State::Open { until: now + first_rest, rest: first_rest }
            }
            // Requests sent before the circuit opened do not count.
            (State::Open { .. }, _) => return,
            (State::Probing { .. }, _) if !is_probe => return,
            (State::Closed { .. } | State::Probing { .. }, Verdict::Well) => {
                State::Closed { failures: 0 }
            }
            (State::Probing { rest }, Verdict::Ill) => {
                let rest = (*rest * 2).min(longest_rest);
                State::Open { until: now + rest, rest }
            }
        };
        self.change(&mut state, next);
    }

    /// Reopens the circuit for the next probe after a probe was dropped without a result.
    fn release_probe(&self, now: Instant) {
        let mut state = self.state();
        if let State::Probing { rest } = *state {
            self.change(&mut state, State::Open { until: now, rest });
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
    pub fn tell(&mut self, verdict: Verdict, now: Instant) {
        if !std::mem::replace(&mut self.is_reported, true) {
            self.breaker.record(self.is_probe, verdict, now);
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
            breaker.enter(now).unwrap().tell(Verdict::Ill, now);
        }
        breaker
    }

    #[test]
    fn consecutive_failures_open_the_circuit_and_a_success_resets_the_count() {
        let now = Instant::now();
        let breaker = Breaker::default();
        for verdict in [Verdict::Ill, Verdict::Well, Verdict::Ill] {
            for _ in 1..MODEL_SERVERS.failures {
                breaker.enter(now).unwrap().tell(verdict, now);
            }
        }
        assert_eq!(breaker.circuit(), Circuit::Closed);
        breaker.enter(now).unwrap().tell(Verdict::Ill, now);
        assert_eq!(breaker.circuit(), Circuit::Open);
        assert_eq!(breaker.enter(now).unwrap_err(), Some(now + MODEL_SERVERS.first_rest));
    }

    #[test]
    fn one_probe_is_sent_while_other_requests_wait() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = start + MODEL_SERVERS.first_rest;
        let mut probe = breaker.enter(now).unwrap();
        assert_eq!(breaker.circuit(), Circuit::HalfOpen);
        assert_eq!(breaker.enter(now).unwrap_err(), None);
        probe.tell(Verdict::Well, now);
        assert_eq!(breaker.circuit(), Circuit::Closed);
        breaker.enter(now).unwrap();
    }

    #[test]
    fn the_open_period_doubles_up_to_half_a_minute() {
        let mut now = Instant::now();
        let breaker = opened(now);
        let mut rests = Vec::new();
        for _ in 0..7 {
            let until = breaker.enter(now).unwrap_err().unwrap();
            rests.push((until - now).as_secs());
            now = until;
            breaker.enter(now).unwrap().tell(Verdict::Ill, now);
        }
        assert_eq!(rests, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn after_a_dropped_probe_another_request_probes() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = start + MODEL_SERVERS.first_rest;
        drop(breaker.enter(now).unwrap());
        assert_eq!(breaker.circuit(), Circuit::Open);
        let later = Instant::now() + MODEL_SERVERS.first_rest;
        breaker.enter(later).unwrap();
    }

    #[test]
    fn results_of_requests_from_before_the_opening_are_ignored() {
        let now = Instant::now();
        let breaker = Breaker::default();
        let mut early = breaker.enter(now).unwrap();
        for _ in 0..MODEL_SERVERS.failures {
            breaker.enter(now).unwrap().tell(Verdict::Ill, now);
        }
        early.tell(Verdict::Well, now);
        assert_eq!(breaker.circuit(), Circuit::Open);
    }
}
