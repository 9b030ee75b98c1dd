//! The runs that this process drives.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::bus::{Bus, Cancel};
use crate::domain::ids::RunId;
use crate::worker::run::signals::{ShutdownSignals, Signals};

/// The runs that this process drives, with their signals.
#[derive(Debug, Default)]
pub(in crate::worker) struct ActiveRuns {
    state: Mutex<State>,
    /// Triggers a renewal of the leases, which also reads the requests to cancel runs.
    pub(in crate::worker) renew_now: Notify,
}

#[derive(Debug, Default)]
struct State {
    runs: HashMap<RunId, ActiveDriver>,
    /// The number of drivers so far.
    count: u64,
    /// Requests to cancel runs that are not registered, or not yet: a run may have been claimed and
    /// not registered. The next heartbeat reads a request that is dropped here.
    early_cancels: HashSet<RunId>,
}

/// A driver of a run. A lost run can be claimed again before its last driver has noticed.
#[derive(Debug)]
struct ActiveDriver {
    number: u64,
    signals: Signals,
}

/// Maximum number of early requests to cancel that are kept.
const MAX_EARLY_CANCELS: usize = 1024;

impl ActiveRuns {
    /// Registers a run until the guard is dropped, also by a panic of its driver.
    pub(in crate::worker) fn register(
        &self,
        run_id: RunId,
        shutdown: &ShutdownSignals,
    ) -> (Signals, Registration<'_>) {
        let signals = Signals::new(shutdown);
        let mut state = self.state();
        if state.early_cancels.remove(&run_id) {
            signals.cancel.cancel();
        }
        state.count += 1;
        let number = state.count;
        let driver = ActiveDriver { number, signals: signals.clone() };
        if let Some(previous) = state.runs.insert(run_id, driver) {
            previous.signals.lost.cancel();
        }
        drop(state);
        (signals, Registration { active: self, run_id, number })
    }

    /// Cancels a run, or remembers the request until the run is registered.
    pub(in crate::worker) fn cancel(&self, run_id: RunId) {
        let mut state = self.state();
        if let Some(driver) = state.runs.get(&run_id) {
            driver.signals.cancel.cancel();
            return;
        }
        if state.early_cancels.len() >= MAX_EARLY_CANCELS {
            state.early_cancels.clear();
        }
        state.early_cancels.insert(run_id);
    }

    fn contains(&self, run_id: RunId) -> bool {
        self.state().runs.contains_key(&run_id)
    }

    /// The ids of all registered runs.
    pub(in crate::worker) fn ids(&self) -> Vec<RunId> {
        self.state().runs.keys().copied().collect()
    }

    /// Signals a run that its lease is lost. Does nothing if the run has settled meanwhile.
    pub(in crate::worker) fn lose(&self, run_id: RunId) {
        if let Some(driver) = self.state().runs.get(&run_id) {
            driver.signals.lost.cancel();
        }
    }

    /// Signals all runs that their leases are lost, and returns their number.
    pub(in crate::worker) fn lose_all(&self) -> usize {
        let state = self.state();
        for driver in state.runs.values() {
            driver.signals.lost.cancel();
        }
        state.runs.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The registration of a run.
#[derive(Debug)]
pub(in crate::worker) struct Registration<'a> {
    active: &'a ActiveRuns,
    run_id: RunId,
    number: u64,
}

impl Drop for Registration<'_> {
    /// Keeps a later driver of the same run: without its registration its lease is not renewed.
    fn drop(&mut self) {
        let mut state = self.active.state();
        if state.runs.get(&self.run_id).is_some_and(|driver| driver.number == self.number) {
            state.runs.remove(&self.run_id);
        }
    }
}

/// Forwards requests to cancel from the bus to the runs. The next heartbeat reads the requests that
/// are missed here.
pub(in crate::worker) async fn forward_cancels(
    bus: Arc<Bus>,
    active: Arc<ActiveRuns>,
    stop: CancellationToken,
) {
    let mut cancels = bus.cancels();
    let forward = async {
        loop {
            match cancels.recv().await {
                Ok(Cancel::Local(run_id)) => active.cancel(run_id),
                // Every client of the database can send this notification, so the run's row decides.
                Ok(Cancel::Remote(run_id)) => {
                    if active.contains(run_id) {
                        active.renew_now.notify_one();
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    };
    stop.run_until_cancelled(forward).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_ends_keeps_the_next_drive_of_its_run() {
        let (active, shutdown) = (ActiveRuns::default(), ShutdownSignals::default());
        let run_id = RunId::new();
        let (first, registration) = active.register(run_id, &shutdown);
        let (second, _registration) = active.register(run_id, &shutdown);
        assert!(first.lost.is_cancelled(), "the first driver has lost the run");
        drop(registration);
        assert_eq!(active.ids(), [run_id]);
        active.cancel(run_id);
        assert!(second.cancel.is_cancelled());
    }
}
