//! The isolation of runs that are suspected to kill their workers.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use tokio::time::Instant;

use crate::domain::suspicion::{ISOLATION_PERIOD, Suspicion};

/// Suspects that a process executes at once, as long as none of them is isolated.
const SUSPECTS_AT_ONCE: u32 = 8;

/// The isolation of suspects from each other, in one process.
#[derive(Debug, Default)]
pub(super) struct Isolation(Mutex<Vec<Weak<IsolationPermit>>>);

/// The permit to execute a suspect. It counts until it is dropped, or until the suspect has been
/// executed for the isolation period.
#[derive(Debug)]
pub(in crate::worker) struct IsolationPermit {
    /// The number of suspects in whose stead the run is executed.
    weight: u32,
    executed_since: OnceLock<Instant>,
}

impl IsolationPermit {
    /// Starts the isolation period, with the execution of the run.
    pub(in crate::worker) fn start(&self) {
        self.executed_since.get_or_init(Instant::now);
    }

    /// The number of suspects in whose stead the run is executed now.
    fn weight(&self) -> u32 {
        let is_over =
            self.executed_since.get().is_some_and(|since| since.elapsed() >= ISOLATION_PERIOD);
        if is_over { 0 } else { self.weight }
    }
}

impl Isolation {
    /// The permit to execute a run of this degree of suspicion, held until the run has made
    /// progress or is no longer executed; none while other suspects are in the way.
    pub(super) fn permit(&self, suspicion: Suspicion) -> Option<Arc<IsolationPermit>> {
        let weight = match suspicion {
            Suspicion::None => 0,
            Suspicion::Suspected => 1,
            Suspicion::Isolated => SUSPECTS_AT_ONCE,
        };
        let mut permits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used(&mut permits) + weight > SUSPECTS_AT_ONCE {
            return None;
        }
        let permit = Arc::new(IsolationPermit { weight, executed_since: OnceLock::new() });
        permits.push(Arc::downgrade(&permit));
        Some(permit)
    }

    /// True while no suspect is executed, except those whose isolation period is over.
    pub(super) fn is_unused(&self) -> bool {
        used(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)) == 0
    }
}

/// The weight of all permits that count. Removes the others.
fn used(permits: &mut Vec<Weak<IsolationPermit>>) -> u32 {
    let mut used = 0;
    permits.retain(|permit| {
        let weight = permit.upgrade().map_or(0, |permit| permit.weight());
        used += weight;
        weight > 0
    });
    used
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

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

    #[tokio::test(start_paused = true)]
    async fn a_suspect_that_hangs_delays_the_next_one_for_the_isolation_period_only() {
        let isolation = Isolation::default();
        for suspicion in [Suspicion::Suspected, Suspicion::Isolated] {
            let hanging = isolation.permit(suspicion).expect("no other suspect is executed");
            advance(2 * ISOLATION_PERIOD).await;
            assert!(isolation.permit(Suspicion::Isolated).is_none(), "it waits for a slot");
            hanging.start();
            advance(ISOLATION_PERIOD.saturating_sub(Duration::from_millis(1))).await;
            assert!(isolation.permit(Suspicion::Isolated).is_none(), "it may kill its worker");
            assert!(!isolation.is_unused());
            advance(Duration::from_millis(1)).await;
            assert!(isolation.is_unused());
            let next = isolation.permit(Suspicion::Isolated).expect("the worker has survived");
            drop(hanging);
            assert!(isolation.permit(Suspicion::Suspected).is_none(), "the next one is isolated");
            drop(next);
        }
    }
}
