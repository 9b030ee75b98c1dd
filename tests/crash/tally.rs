//! What was counted, and what was found.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::output::note;

/// One count.
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

/// The longest of some times, in milliseconds, and how many there were.
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

/// All figures of a test, or of one proof.
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
    pub(crate) paid_twice: Count,
    pub(crate) kills: Count,
    pub(crate) restarts: Count,
    pub(crate) stops: Count,
    pub(crate) terminations: Count,
    pub(crate) cuts: Count,
    pub(crate) events_followed: Count,
    pub(crate) wrong_clocks: Count,
    points: Mutex<BTreeSet<&'static str>>,
    red: Mutex<Vec<String>>,
    /// Whether nobody is told at once, because red is what is wanted.
    is_quiet: bool,
}

impl Tally {
    /// A tally whose findings are for its owner alone.
    pub(crate) fn quiet() -> Self {
        Self { is_quiet: true, ..Self::default() }
    }

    /// Notes something that must not be.
    pub(crate) fn red(&self, place: &str, what: &str) {
        let line = format!("{place}: {what}");
        if !self.is_quiet {
            note(&format!("RED {line}"));
        }
        locked(&self.red).push(line);
    }

    pub(crate) fn reds(&self) -> Vec<String> {
        locked(&self.red).clone()
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
