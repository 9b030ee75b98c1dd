//! The slot of one run among those that the worker executes at once. A run that only waits releases
//! its slot.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The longest wait during which a run keeps its slot.
pub(in crate::worker) const SLOT_KEPT_FOR: Duration = Duration::from_secs(5);

/// The slot of one run.
#[derive(Debug)]
pub(in crate::worker) struct Slot {
    held: Option<OwnedSemaphorePermit>,
    free: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// The permit to wait without a slot, while the run does.
    waits: Option<OwnedSemaphorePermit>,
    /// The slot was released for the runs that this one waits for.
    is_yielded: bool,
}

impl Slot {
    /// A slot of a pool of `free` slots, with `waiting` permits to wait without one. `held` is empty
    /// for a run that exceeds the number of slots.
    pub(in crate::worker) fn new(
        held: Option<OwnedSemaphorePermit>,
        free: &Arc<Semaphore>,
        waiting: &Arc<Semaphore>,
    ) -> Self {
        let (free, waiting) = (Arc::clone(free), Arc::clone(waiting));
        Self { held, free, waiting, waits: None, is_yielded: false }
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
    /// runs that need slots themselves.
    pub(in crate::worker) fn yield_to_sub_agents(&mut self) {
        self.is_yielded |= self.held.take().is_some();
    }

    /// Acquires a slot again, if this one was released. Cancel safe.
    pub(in crate::worker) async fn reacquire(&mut self) {
        if self.waits.is_some() || self.is_yielded {
            // The semaphore is never closed.
            self.held = Arc::clone(&self.free).acquire_owned().await.ok();
            self.waits = None;
            self.is_yielded = false;
        }
    }
}
