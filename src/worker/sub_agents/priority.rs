//! Runs that others of this process wait for: they are taken up before those that nobody waits for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::domain::ids::RunId;

/// What runs of this process wait for. Without it, all parents of a long queue would begin before
/// the first of their sub-agents, and be held in memory.
#[derive(Debug, Default)]
pub(in crate::worker) struct Awaited(Mutex<HashMap<Uuid, usize>>);

impl Awaited {
    /// Notes runs until the guard is dropped.
    pub(in crate::worker) fn enter(&self, runs: impl IntoIterator<Item = RunId>) -> Awaiting<'_> {
        let runs: Vec<Uuid> = runs.into_iter().map(RunId::as_uuid).collect();
        let mut awaited = self.runs();
        for run in &runs {
            *awaited.entry(*run).or_default() += 1;
        }
        drop(awaited);
        Awaiting { awaited: self, runs }
    }

    /// All of them; none if there are none.
    pub(in crate::worker) fn list(&self) -> Option<Vec<Uuid>> {
        let runs = self.runs();
        (!runs.is_empty()).then(|| runs.keys().copied().collect())
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<Uuid, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs that somebody waits for.
#[derive(Debug)]
pub(in crate::worker) struct Awaiting<'a> {
    awaited: &'a Awaited,
    runs: Vec<Uuid>,
}

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        let mut awaited = self.awaited.runs();
        for run in &self.runs {
            // A parent that was lost may have come back before its last drive has noticed.
            if let Some(count) = awaited.get_mut(run) {
                *count -= 1;
                if *count == 0 {
                    awaited.remove(run);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_awaited_as_long_as_somebody_waits() {
        let awaited = Awaited::default();
        assert_eq!(awaited.list(), None);
        let run = RunId::new();
        let waiting = awaited.enter([run]);
        let again = awaited.enter([run]);
        drop(waiting);
        assert_eq!(awaited.list(), Some(vec![run.as_uuid()]));
        drop(again);
        assert_eq!(awaited.list(), None);
    }
}
