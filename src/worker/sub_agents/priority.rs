//! Priority of awaited runs: a worker claims them before all others.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

use crate::domain::ids::RunId;

/// The runs of sub-agents that runs of this process wait for. Without their priority, all parents of
/// a long queue would begin before the first of their sub-agents, and stay in memory.
#[derive(Debug, Default)]
pub(in crate::worker) struct AwaitedRuns(Mutex<HashMap<Uuid, usize>>);

impl AwaitedRuns {
    /// Adds runs until the guard is dropped.
    pub(in crate::worker) fn add(&self, runs: impl IntoIterator<Item = RunId>) -> Awaiting<'_> {
        let runs: Vec<Uuid> = runs.into_iter().map(RunId::as_uuid).collect();
        let mut awaited = self.runs();
        for run in &runs {
            *awaited.entry(*run).or_default() += 1;
        }
        drop(awaited);
        Awaiting { awaited: self, runs }
    }

    /// The awaited runs; none if there are none.
    pub(in crate::worker) fn list(&self) -> Option<Vec<Uuid>> {
        let runs = self.runs();
        (!runs.is_empty()).then(|| runs.keys().copied().collect())
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<Uuid, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The guard of awaited runs.
#[derive(Debug)]
pub(in crate::worker) struct Awaiting<'a> {
    awaited: &'a AwaitedRuns,
    runs: Vec<Uuid>,
}

impl Drop for Awaiting<'_> {
    fn drop(&mut self) {
        let mut awaited = self.awaited.runs();
        for run in &self.runs {
            // A lost parent may have been claimed again before its last drive has ended.
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
    fn a_run_is_awaited_as_long_as_one_parent_waits() {
        let awaited = AwaitedRuns::default();
        assert_eq!(awaited.list(), None);
        let run = RunId::new();
        let waiting = awaited.add([run]);
        let again = awaited.add([run]);
        drop(waiting);
        assert_eq!(awaited.list(), Some(vec![run.as_uuid()]));
        drop(again);
        assert_eq!(awaited.list(), None);
    }
}
