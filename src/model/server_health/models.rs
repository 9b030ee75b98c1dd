//! The health of all models of a server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::model_health::ModelHealth;
use crate::domain::circuit::Circuit;

/// The time after which the failures of a model that no run uses are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(10);

/// The health of the models of a server, by the names that sessions use.
#[derive(Debug, Default)]
pub struct ServerHealth(Mutex<HashMap<Box<str>, Entry>>);

#[derive(Debug)]
struct Entry {
    health: Arc<ModelHealth>,
    used_at: Instant,
}

impl Entry {
    /// True if a run uses the model, or used it recently.
    fn is_current(&self, now: Instant) -> bool {
        Arc::strong_count(&self.health) > 1 || now - self.used_at < FORGOTTEN_AFTER
    }

    /// True if the entry says no more than a new one would, and no run uses it.
    fn is_redundant(&self, now: Instant) -> bool {
        let ModelHealth { breaker, budget, .. } = &*self.health;
        Arc::strong_count(&self.health) == 1 && breaker.is_unimpaired() && budget.is_full(now)
    }
}

impl ServerHealth {
    /// The health of a model, for a run that starts.
    pub fn of(&self, model: &str, now: Instant) -> Arc<ModelHealth> {
        let mut models = self.models();
        if let Some(entry) = models.get_mut(model) {
            entry.used_at = now;
            return Arc::clone(&entry.health);
        }
        // Names of models come from clients, so entries must not accumulate.
        models.retain(|_, entry| entry.is_current(now) && !entry.is_redundant(now));
        let health = Arc::<ModelHealth>::default();
        models.insert(model.into(), Entry { health: Arc::clone(&health), used_at: now });
        health
    }

    /// The state of the circuit that is the least closed.
    pub fn circuit(&self, now: Instant) -> Circuit {
        let models = self.models();
        let current = models.values().filter(|entry| entry.is_current(now));
        let circuits = current.map(|entry| entry.health.breaker.circuit());
        circuits.max().unwrap_or(Circuit::Closed)
    }

    fn models(&self) -> MutexGuard<'_, HashMap<Box<str>, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::server_health::Health;

    fn fail(health: &ModelHealth, now: Instant) {
        while let Ok(mut pass) = health.breaker.enter(now) {
            pass.report(Health::Unhealthy, now);
        }
    }

    #[test]
    fn a_failing_model_opens_no_circuit_but_its_own() {
        let (server, now) = (ServerHealth::default(), Instant::now());
        let (dead, healthy) = (server.of("dead", now), server.of("healthy", now));
        fail(&dead, now);
        while dead.budget.spend(now).is_some() {}
        assert_eq!(server.of("dead", now).breaker.circuit(), Circuit::Open);
        assert_eq!(healthy.breaker.circuit(), Circuit::Closed);
        assert_eq!(healthy.budget.spend(now), Some(Duration::ZERO));
        assert_eq!(server.circuit(now), Circuit::Open);
    }

    #[test]
    fn names_of_models_without_failures_do_not_accumulate() {
        let (server, now) = (ServerHealth::default(), Instant::now());
        let used = server.of("in use", now);
        for number in 0..1000 {
            drop(server.of(&format!("model {number}"), now));
        }
        assert_eq!(server.models().len(), 2, "the one in use, and the last one");
        drop(used);
    }

    #[test]
    fn failures_of_a_model_that_no_run_uses_are_forgotten_after_a_while() {
        let (server, now) = (ServerHealth::default(), Instant::now());
        fail(&server.of("dead", now), now);
        drop(server.of("other", now));
        assert_eq!(server.of("dead", now).breaker.circuit(), Circuit::Open);
        let later = now + FORGOTTEN_AFTER;
        assert_eq!(server.circuit(later), Circuit::Closed);
        drop(server.of("one more", later));
        assert_eq!(server.of("dead", later).breaker.circuit(), Circuit::Closed);
    }
}
