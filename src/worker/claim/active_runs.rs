//! The runs that this process holds, and how they are told to stop.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::bus::Cancel;
use crate::domain::ids::RunId;
use crate::worker::Worker;
use crate::worker::run::stop_cause::Halt;

/// How one run is told to stop.
#[derive(Debug, Clone)]
pub(in crate::worker) struct Signals {
    /// The client cancelled it: settle it.
    pub(in crate::worker) cancel: CancellationToken,
    /// The worker will stop: let it go at the next safe point.
    pub(in crate::worker) drain: CancellationToken,
    /// The worker must let it go now, and may still write.
    pub(in crate::worker) halt: CancellationToken,
    /// The lease is lost: write nothing more.
    pub(in crate::worker) lost: CancellationToken,
}

/// How a worker tells all its runs to stop.
#[derive(Debug, Default)]
pub(in crate::worker) struct Stopping {
    /// At the next safe point.
    pub(in crate::worker) drain: CancellationToken,
    /// At once.
    pub(in crate::worker) halt: CancellationToken,
}

/// The runs of this process.
#[derive(Debug, Default)]
pub(in crate::worker) struct Active(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    runs: HashMap<RunId, Drive>,
    /// Drives that have entered.
    count: u64,
    /// Requests to cancel runs that are not here, or not yet: a run may have been claimed and
    /// not entered. What is forgotten here, the next heartbeat brings.
    early: HashSet<RunId>,
}

/// A drive of a run. A run that was lost can come back before its last drive has noticed.
#[derive(Debug)]
struct Drive {
    number: u64,
    signals: Signals,
}

/// Early requests that are remembered.
const MAX_EARLY: usize = 1024;

impl Active {
    /// Notes a run until the guard is dropped, a panic of its driver included.
    pub(in crate::worker) fn enter(
        &self,
        run_id: RunId,
        stopping: &Stopping,
    ) -> (Signals, Entered<'_>) {
        let signals = Signals {
            cancel: CancellationToken::new(),
            drain: stopping.drain.clone(),
            halt: stopping.halt.clone(),
            lost: CancellationToken::new(),
        };
        let mut state = self.state();
        if state.early.remove(&run_id) {
            signals.cancel.cancel();
        }
        state.count += 1;
        let number = state.count;
        let drive = Drive { number, signals: signals.clone() };
        if let Some(before) = state.runs.insert(run_id, drive) {
            before.signals.lost.cancel();
        }
        drop(state);
        (signals, Entered { active: self, run_id, number })
    }

    pub(in crate::worker) fn cancel(&self, run_id: RunId) {
        let mut state = self.state();
        if let Some(drive) = state.runs.get(&run_id) {
            drive.signals.cancel.cancel();
            return;
        }
        if state.early.len() >= MAX_EARLY {
            state.early.clear();
        }
        state.early.insert(run_id);
    }

    pub(in crate::worker) fn holds(&self, run_id: RunId) -> bool {
        self.state().runs.contains_key(&run_id)
    }

    pub(in crate::worker) fn ids(&self) -> Vec<RunId> {
        self.state().runs.keys().copied().collect()
    }

    /// Tells a run that another worker has taken it over. A run that has settled meanwhile is
    /// past hearing it.
    pub(in crate::worker) fn lose(&self, run_id: RunId) {
        if let Some(drive) = self.state().runs.get(&run_id) {
            drive.signals.lost.cancel();
        }
    }

    /// Tells all runs that their lease is lost.
    pub(in crate::worker) fn lose_all(&self) -> usize {
        let state = self.state();
        for drive in state.runs.values() {
            drive.signals.lost.cancel();
        }
        state.runs.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run that is here.
#[derive(Debug)]
pub(in crate::worker) struct Entered<'a> {
    active: &'a Active,
    run_id: RunId,
    number: u64,
}

impl Drop for Entered<'_> {
    /// Leaves a later drive of the same run where it is: without it nobody would keep its lease.
    fn drop(&mut self) {
        let mut state = self.active.state();
        if state.runs.get(&self.run_id).is_some_and(|drive| drive.number == self.number) {
            state.runs.remove(&self.run_id);
        }
    }
}

/// Passes announced requests to cancel on to their runs. What is missed here, the next heartbeat
/// brings.
pub(in crate::worker) async fn cancel_announced(worker: Arc<Worker>, stop: CancellationToken) {
    let mut cancels = worker.parts.bus.cancels();
    let pass_on = async {
        loop {
            match cancels.recv().await {
                Ok(Cancel::Asked(run_id)) => worker.active.cancel(run_id),
                // Whoever can reach the database can say so. The run's row knows.
                Ok(Cancel::Heard(run_id)) => {
                    if worker.active.holds(run_id) {
                        worker.beat_now.notify_one();
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            }
        }
    };
    stop.run_until_cancelled(pass_on).await;
}

impl Signals {
    /// Does something unless the lease is lost before it is done.
    pub(in crate::worker) async fn unless_lost<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, Halt> {
        tokio::select! {
            biased;
            () = self.lost.cancelled() => Err(Halt::LeaseLost),
            done = work => Ok(done),
        }
    }

    /// Waits for nothing in particular, unless the run is told to stop or the worker to drain.
    pub(in crate::worker) async fn unless_draining<T>(
        &self,
        wait: impl Future<Output = T>,
    ) -> Result<T, Halt> {
        tokio::select! {
            biased;
            () = self.drain.cancelled() => Err(Halt::ShuttingDown),
            done = self.unless_stopped(wait) => done,
        }
    }

    /// Does something unless the run is told to stop before it is done.
    pub(in crate::worker) async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, Halt> {
        tokio::select! {
            biased;
            () = self.lost.cancelled() => Err(Halt::LeaseLost),
            () = self.cancel.cancelled() => Err(Halt::Cancelled),
            () = self.halt.cancelled() => Err(Halt::ShuttingDown),
            done = work => Ok(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_ends_leaves_the_next_one_of_its_run() {
        let (active, stopping) = (Active::default(), Stopping::default());
        let run_id = RunId::new();
        let (first, entered) = active.enter(run_id, &stopping);
        let (second, _entered) = active.enter(run_id, &stopping);
        assert!(first.lost.is_cancelled(), "it is not the run's drive any more");
        drop(entered);
        assert_eq!(active.ids(), [run_id]);
        active.cancel(run_id);
        assert!(second.cancel.is_cancelled());
    }
}
