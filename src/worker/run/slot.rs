//! The slot of one run among those that the worker executes at once. A run that only waits releases
//! its slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::history_memory::{HeldHistory, HistoryMemory};
use crate::worker::claim::isolation::IsolationPermit;

/// The longest wait during which a run keeps its slot.
pub(in crate::worker) const SLOT_KEPT_FOR: Duration = Duration::from_secs(5);

/// The time after which a run gives its slot to a queued run, at its next safe point. So short runs do
/// not wait for the end of long ones.
pub(in crate::worker) const TIME_SLICE: Duration = Duration::from_secs(10);

/// The time slices of runs, when there are more runs than slots.
#[derive(Debug)]
pub(in crate::worker) struct TimeSlices {
    /// Queued runs may be waiting for a slot.
    pub(in crate::worker) has_queue: Arc<AtomicBool>,
    /// Limits the runs that wait for their next time slice: they stay in memory and keep their leases.
    pub(in crate::worker) paused: Arc<Semaphore>,
}

/// The slot of one run.
#[derive(Debug)]
pub(in crate::worker) struct Slot {
    held: Option<OwnedSemaphorePermit>,
    free: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    slices: Arc<TimeSlices>,
    /// The permit to wait without a slot, while the run does.
    waits: Option<OwnedSemaphorePermit>,
    held_since: Instant,
    /// The permit of a run that is suspected to kill its workers.
    isolation: Option<Arc<IsolationPermit>>,
    /// The slot was released for the runs that this one waits for.
    is_yielded: bool,
    /// The history of the run.
    history: HeldHistory,
}

impl Slot {
    /// A slot of a pool of `free` slots, with `waiting` permits to wait without one. `held` is empty
    /// for a run that exceeds the number of slots.
    pub(in crate::worker) fn new(
        held: Option<OwnedSemaphorePermit>,
        free: &Arc<Semaphore>,
        waiting: &Arc<Semaphore>,
        slices: &Arc<TimeSlices>,
        history: HeldHistory,
    ) -> Self {
        Self {
            held,
            free: Arc::clone(free),
            waiting: Arc::clone(waiting),
            slices: Arc::clone(slices),
            waits: None,
            held_since: Instant::now(),
            isolation: None,
            is_yielded: false,
            history,
        }
    }

    /// The memory of histories, of which this run uses a part.
    pub(in crate::worker) fn memory(&self) -> &Arc<HistoryMemory> {
        self.history.memory()
    }

    /// Counts the history of the run, which has this size in bytes.
    pub(in crate::worker) fn count_history(&mut self, bytes: usize) {
        self.history.set(bytes);
    }

    /// Isolates the run, which starts now, from other suspects until it has made progress or has
    /// been executed for the isolation period.
    pub(in crate::worker) fn isolate(&mut self, isolation: Arc<IsolationPermit>) {
        isolation.start();
        self.isolation = Some(isolation);
    }

    /// Ends the isolation of the run.
    pub(in crate::worker) fn end_isolation(&mut self) {
        self.isolation = None;
    }

    /// Releases the slot if the time slice of the run has ended and queued runs may be waiting. Returns true
    /// if the run has to acquire a slot again.
    pub(in crate::worker) fn end_time_slice(&mut self) -> bool {
        let is_over = self.held.is_some()
            && self.held_since.elapsed() >= TIME_SLICE
            && self.slices.has_queue.load(Ordering::Relaxed);
        if is_over && let Ok(waits) = Arc::clone(&self.slices.paused).try_acquire_owned() {
            self.waits = Some(waits);
            self.held = None;
        }
        self.waits.is_some()
    }

    /// Releases the slot during a wait, unless too many runs wait without one already.
    pub(in crate::worker) fn release(&mut self) {
        if self.held.is_none() {
            return;
        }
        if let Ok(waits) = Arc::clone(&self.waiting).try_acquire_owned() {
            self.waits = Some(waits);
            self.held = None;
        }
    }

    /// Releases the slot without a limit on the number of waiting runs: this run waits for other
    /// runs that need slots themselves. They may be suspects too, so the isolation ends. They need
    /// memory too, so the history does not count meanwhile.
    pub(in crate::worker) fn yield_to_sub_agents(&mut self) {
        self.history.set(0);
        self.end_isolation();
        self.yield_to_others();
    }

    /// Releases the slot without a limit on the number of waiting runs, for runs that this one waits
    /// for.
    pub(in crate::worker) fn yield_to_others(&mut self) {
        self.is_yielded |= self.held.take().is_some();
    }

    /// Acquires a slot again, if this one was released. Cancel safe.
    pub(in crate::worker) async fn reacquire(&mut self) {
        if self.waits.is_some() || self.is_yielded {
            // The semaphore is never closed.
            self.held = Arc::clone(&self.free).acquire_owned().await.ok();
            self.held_since = Instant::now();
            self.waits = None;
            self.is_yielded = false;
        }
    }
}
