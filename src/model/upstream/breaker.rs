//! A server that fails everybody is left alone for a while, then tried by one request.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::domain::circuit::Circuit;
use crate::model::{ErrorKind, ModelError};

/// What a server of models may do to all runs together: more failures than one run has alone.
const OF_MODELS: Endurance = Endurance {
    failures: 10,
    first_rest: Duration::from_secs(1),
    longest_rest: Duration::from_secs(30),
};

/// How much is borne of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endurance {
    /// Failures in a row after which it is left alone.
    pub failures: u32,
    /// How long it is left alone then.
    pub first_rest: Duration,
    /// How long at most, when the first request after that fails as well.
    pub longest_rest: Duration,
}

/// What a request tells of its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It answers.
    Well,
    /// It is overloaded, or away.
    Ill,
}

impl Verdict {
    /// What a failure tells. A server that refuses, or that limits our rate, is at work.
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

/// Decides whether a server is asked.
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
    /// One request is on its way to find out.
    Probing {
        rest: Duration,
    },
}

impl Default for Breaker {
    fn default() -> Self {
        Self::new(OF_MODELS)
    }
}

impl Breaker {
    /// One for a server of which so much is borne.
    pub fn new(endurance: Endurance) -> Self {
        let state = Mutex::new(State::Closed { failures: 0 });
        Self { endurance, state, circuit: watch::channel(Circuit::Closed).0 }
    }

    /// Lets a request through, or says when it may be worth asking again; none while another
    /// request is finding out.
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
        Ok(Pass { breaker: self, is_probe, is_told: false })
    }

    /// The state.
    pub fn circuit(&self) -> Circuit {
        *self.circuit.borrow()
    }

    /// The state, and its changes.
    pub fn watch(&self) -> watch::Receiver<Circuit> {
        self.circuit.subscribe()
    }

    fn tell(&self, is_probe: bool, verdict: Verdict, now: Instant) {
        let Endurance { failures: most, first_rest, longest_rest } = self.endurance;
        let mut state = self.state();
        let next = match (&*state, verdict) {
            (State::Closed { failures }, Verdict::Ill) if failures + 1 < most => {
                State::Closed { failures: failures + 1 }
            }
            (State::Closed { .. }, Verdict::Ill) => {
                State::Open { until: now + first_rest, rest: first_rest }
            }
            // What was sent before it opened is old news.
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

    /// The request that was to find out was dropped: another may.
    fn give_up_probe(&self, now: Instant) {
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

/// A request that was let through, until it is known what it tells of the server.
#[derive(Debug)]
pub struct Pass<'a> {
    breaker: &'a Breaker,
    is_probe: bool,
    is_told: bool,
}

impl Pass<'_> {
    /// Tells what the request found. Only the first word counts: a server that begins to answer
    /// is well, whatever becomes of the answer.
    pub fn tell(&mut self, verdict: Verdict, now: Instant) {
        if !std::mem::replace(&mut self.is_told, true) {
            self.breaker.tell(self.is_probe, verdict, now);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_probe && !self.is_told {
            self.breaker.give_up_probe(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets as many requests fail as it takes.
    fn opened(now: Instant) -> Breaker {
        let breaker = Breaker::default();
        for _ in 0..OF_MODELS.failures {
            breaker.enter(now).unwrap().tell(Verdict::Ill, now);
        }
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_in_between_does_not() {
        let now = Instant::now();
        let breaker = Breaker::default();
        for verdict in [Verdict::Ill, Verdict::Well, Verdict::Ill] {
            for _ in 1..OF_MODELS.failures {
                breaker.enter(now).unwrap().tell(verdict, now);
            }
        }
        assert_eq!(breaker.circuit(), Circuit::Closed);
        breaker.enter(now).unwrap().tell(Verdict::Ill, now);
        assert_eq!(breaker.circuit(), Circuit::Open);
        assert_eq!(breaker.enter(now).unwrap_err(), Some(now + OF_MODELS.first_rest));
    }

    #[test]
    fn one_request_finds_out_while_the_others_wait() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = start + OF_MODELS.first_rest;
        let mut probe = breaker.enter(now).unwrap();
        assert_eq!(breaker.circuit(), Circuit::HalfOpen);
        assert_eq!(breaker.enter(now).unwrap_err(), None);
        probe.tell(Verdict::Well, now);
        assert_eq!(breaker.circuit(), Circuit::Closed);
        breaker.enter(now).unwrap();
    }

    #[test]
    fn it_rests_longer_each_time_up_to_half_a_minute() {
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
    fn a_probe_that_is_dropped_leaves_its_place_to_another() {
        let start = Instant::now();
        let breaker = opened(start);
        let now = start + OF_MODELS.first_rest;
        drop(breaker.enter(now).unwrap());
        assert_eq!(breaker.circuit(), Circuit::Open);
        let later = Instant::now() + OF_MODELS.first_rest;
        breaker.enter(later).unwrap();
    }

    #[test]
    fn what_was_sent_before_it_opened_is_old_news() {
        let now = Instant::now();
        let breaker = Breaker::default();
        let mut early = breaker.enter(now).unwrap();
        for _ in 0..OF_MODELS.failures {
            breaker.enter(now).unwrap().tell(Verdict::Ill, now);
        }
        early.tell(Verdict::Well, now);
        assert_eq!(breaker.circuit(), Circuit::Open);
    }
}
