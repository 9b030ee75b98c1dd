//! The isolation of runs that are suspected to kill their workers.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::suspicion::Suspicion;

/// Suspects that a process executes at once, as long as none of them is isolated.
const SUSPECTS_AT_ONCE: u32 = 8;

/// The isolation of suspects from each other, in one process.
#[derive(Debug)]
pub(super) struct Isolation(Arc<Semaphore>);

impl Default for Isolation {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SUSPECTS_AT_ONCE as usize)))
    }
}

impl Isolation {
    /// The permit to execute a run of this degree of suspicion, held until the run has made progress
    /// or is no longer executed; none while other suspects are in the way.
    pub(super) fn permit(&self, suspicion: Suspicion) -> Option<OwnedSemaphorePermit> {
        let permits = match suspicion {
            Suspicion::None => 0,
            Suspicion::Suspected => 1,
            Suspicion::Isolated => SUSPECTS_AT_ONCE,
        };
        Arc::clone(&self.0).try_acquire_many_owned(permits).ok()
    }

    /// True while no suspect is executed.
    pub(super) fn is_unused(&self) -> bool {
        self.0.available_permits() == SUSPECTS_AT_ONCE as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_isolated_run_has_no_other_suspects_next_to_it() {
        let isolation = Isolation::default();
        let group: Vec<_> = (0..SUSPECTS_AT_ONCE)
            .map(|_| isolation.permit(Suspicion::Suspected).expect("the group has room"))
            .collect();
        assert!(isolation.permit(Suspicion::Suspected).is_none(), "the group is complete");
        assert!(isolation.permit(Suspicion::Isolated).is_none(), "others are in the way");
        drop(group);
        let alone = isolation.permit(Suspicion::Isolated).expect("no other suspect is executed");
        assert!(isolation.permit(Suspicion::Suspected).is_none());
        assert!(isolation.permit(Suspicion::Isolated).is_none());
        assert!(isolation.permit(Suspicion::None).is_some(), "other runs are not concerned");
        drop(alone);
        assert!(isolation.permit(Suspicion::Isolated).is_some());
    }
}
