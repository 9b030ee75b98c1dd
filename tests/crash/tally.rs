//! The counters and the violations.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::output::note;

/// A counter.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: usize) {
        self.0.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The longest of several durations, and their number.
#[derive(Debug, Default)]
pub(crate) struct Longest(Mutex<(Duration, usize)>);

impl Longest {
    pub(crate) fn add(&self, time: Duration) {
        let mut longest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *longest = (longest.0.max(time), longest.1 + 1);
    }

    pub(crate) fn get(&self) -> (Duration, usize) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All counters of a test, or of one proof.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) accepted: Count,
    pub(crate) completed: Count,
    pub(crate) cancelled: Count,
    pub(crate) crash_loops: Count,
    pub(crate) lost: Count,
    pub(crate) effects: Count,
    pub(crate) doubled_effects: Count,
    pub(crate) same_node: Longest,
    pub(crate) other_node: Longest,
    pub(crate) after_postgres: Longest,
    pub(crate) false_takeovers: Count,
    pub(crate) zombie_writes: Count,
    pub(crate) broken_invariants: Count,
    pub(crate) refusals: Count,
    pub(crate) model_calls: Count,
    pub(crate) repeated_model_calls: Count,
    pub(crate) kills: Count,
    pub(crate) restarts: Count,
    pub(crate) stops: Count,
    pub(crate) terminations: Count,
    pub(crate) cuts: Count,
    pub(crate) events_followed: Count,
    pub(crate) wrong_clocks: Count,
    points: Mutex<BTreeSet<&'static str>>,
    violations: Mutex<Vec<String>>,
    /// Whether violations are not printed, because they are expected.
    is_quiet: bool,
}

impl Tally {
    /// Returns a tally that does not print its violations.
    pub(crate) fn quiet() -> Self {
        Self { is_quiet: true, ..Self::default() }
    }

    /// Records and prints a violation.
    pub(crate) fn violation(&self, scenario: &str, message: &str) {
        let line = format!("{scenario}: {message}");
        if !self.is_quiet {
            note(&format!("RED {line}"));
        }
        locked(&self.violations).push(line);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        locked(&self.violations).clone()
    }

    pub(crate) fn reached(&self, point: &'static str) {
        locked(&self.points).insert(point);
    }

    pub(crate) fn points(&self) -> BTreeSet<&'static str> {
        locked(&self.points).clone()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
