//! The runs that this process drives.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    /// False while the message of the run is being accepted: the database does not have the run yet.
    is_stored: bool,
}

/// Maximum number of early requests to cancel that are kept.
const MAX_EARLY_CANCELS: usize = 1024;

impl ActiveRuns {
    /// Registers a run until the guard is dropped, also by a panic of its driver. `asked_at` is a
    /// time since boot before its claim.
    pub(in crate::worker) fn register(
        &self,
        run_id: RunId,
        asked_at: Duration,
        shutdown: &ShutdownSignals,
    ) -> (Signals, Registration<'_>) {
        self.insert(run_id, Signals::new(shutdown, asked_at), true)
    }

    /// As [`Self::register`], for a run whose message is being accepted. Its lease is renewed from
    /// [`Registration::set_stored`] on.
    pub(in crate::worker) fn register_early(
        &self,
        run_id: RunId,
        asked_at: Duration,
        shutdown: &ShutdownSignals,
    ) -> (Signals, Registration<'_>) {
        self.insert(run_id, Signals::new(shutdown, asked_at), false)
    }

    fn insert(
        &self,
        run_id: RunId,
        signals: Signals,
        is_stored: bool,
    ) -> (Signals, Registration<'_>) {
        let mut state = self.state();
        if state.early_cancels.remove(&run_id) {
            signals.cancel.cancel();
        }
        state.count += 1;
        let number = state.count;
        let driver = ActiveDriver { number, signals: signals.clone(), is_stored };
        if let Some(previous) = state.runs.insert(run_id, driver) {
            previous.signals.lose();
        }
        drop(state);
        if !signals.lease.is_fresh() {
            // The claim took long. Its lease may be valid, which only a renewal can show.
            self.renew_now.notify_one();
        }
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

    /// The ids of all registered runs that are stored.
    pub(in crate::worker) fn ids(&self) -> Vec<RunId> {
        let state = self.state();
        let stored = state.runs.iter().filter(|(_, driver)| driver.is_stored);
        stored.map(|(run_id, _)| *run_id).collect()
    }

    /// Records a renewal of the lease of a run, which was requested at this time since boot.
    pub(in crate::worker) fn renewed(&self, run_id: RunId, asked_at: Duration) {
        if let Some(driver) = self.state().runs.get(&run_id) {
            driver.signals.lease.renewed(asked_at);
        }
    }

    /// Signals a run that its lease is lost. Does nothing if the run has settled meanwhile.
    pub(in crate::worker) fn lose(&self, run_id: RunId) {
        if let Some(driver) = self.state().runs.get(&run_id) {
            driver.signals.lose();
        }
    }

    /// Signals the runs whose leases may have expired that they are lost, and returns their number.
    pub(in crate::worker) fn lose_expired(&self) -> usize {
        let state = self.state();
        let is_expired = |driver: &&ActiveDriver| {
            !driver.signals.lost.is_cancelled() && !driver.signals.lease.is_fresh()
        };
        state.runs.values().filter(is_expired).inspect(|driver| driver.signals.lose()).count()
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

impl Registration<'_> {
    /// Records that the message of the run was accepted.
    pub(in crate::worker) fn set_stored(&self) {
        if let Some(driver) = self.active.state().runs.get_mut(&self.run_id) {
            driver.is_stored = true;
        }
    }
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
    use crate::domain::claim::{LEASE_TRUSTED_FOR, since_boot};

    #[test]
    fn a_drive_that_ends_keeps_the_next_drive_of_its_run() {
        let (active, shutdown) = (ActiveRuns::default(), ShutdownSignals::default());
        let run_id = RunId::new();
        let now = since_boot();
        let (first, registration) = active.register(run_id, now, &shutdown);
        let (second, _registration) = active.register(run_id, now, &shutdown);
        assert!(first.lost.is_cancelled(), "the first driver has lost the run");
        drop(registration);
        assert_eq!(active.ids(), [run_id]);
        active.cancel(run_id);
        assert!(second.cancel.is_cancelled());
        assert_eq!((first.lease.is_fresh(), second.lease.is_fresh()), (false, true));
    }

    #[test]
    fn the_lease_of_a_run_that_is_being_accepted_is_not_renewed() {
        let (active, shutdown) = (ActiveRuns::default(), ShutdownSignals::default());
        let run_id = RunId::new();
        let (_signals, registration) = active.register_early(run_id, since_boot(), &shutdown);
        assert_eq!(active.ids(), []);
        registration.set_stored();
        assert_eq!(active.ids(), [run_id]);
    }

    #[test]
    fn only_the_runs_whose_own_leases_expired_are_lost() {
        let (active, shutdown) = (ActiveRuns::default(), ShutdownSignals::default());
        let [old, renewed, new] = [(); 3].map(|()| RunId::new());
        let now = since_boot();
        let expired = now.saturating_sub(LEASE_TRUSTED_FOR * 2);
        let (old, _old) = active.register(old, expired, &shutdown);
        let (kept, _kept) = active.register(renewed, expired, &shutdown);
        let (new, _new) = active.register(new, now, &shutdown);
        active.renewed(renewed, now);
        assert_eq!(active.lose_expired(), 1);
        let is_lost = |run: &Signals| (run.lost.is_cancelled(), run.lease.is_fresh());
        assert_eq!([&old, &kept, &new].map(is_lost), [(true, false), (false, true), (false, true)]);
        assert_eq!(active.lose_expired(), 0, "a lost run is counted once");
    }
}
