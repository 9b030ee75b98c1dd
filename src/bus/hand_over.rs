//! The hand-over of runs from requests to the worker of the same process. With it, one statement
//! accepts a message to an idle session and claims the run. The worker may start the run while this
//! statement is executed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::domain::claim::{Claimed, since_boot};
use crate::domain::ids::WorkerId;

/// A claimed run and its slot.
#[derive(Debug)]
pub struct HandOver {
    /// The run.
    pub run: Claimed,
    /// Receives the run as it was claimed, if `run` is what the claim is expected to be. An error
    /// means that the message was not accepted, or that its run did not start.
    pub accepted: Option<oneshot::Receiver<Box<Claimed>>>,
    /// The slot, released when it is dropped.
    pub slot: OwnedSemaphorePermit,
    /// A time since boot before the claim, from which the lease is measured.
    pub asked_at: Duration,
}

/// The slots of the worker.
#[derive(Debug, Clone)]
pub struct WorkerSlots {
    /// The free slots.
    pub free: Arc<Semaphore>,
    /// True while queued runs may be waiting for a slot: they go first, in their order.
    pub has_queue: Arc<AtomicBool>,
    /// True while the histories of the runs in progress use all memory for histories.
    pub is_memory_full: Arc<AtomicBool>,
}

/// A slot that is reserved for a run before it is accepted.
#[derive(Debug)]
pub struct Reservation {
    worker: WorkerId,
    /// None for a run that has started early.
    slot: Option<OwnedSemaphorePermit>,
    reserved_at: Duration,
    sender: UnboundedSender<HandOver>,
    /// Reports the claim of a run that has started early.
    early: Option<oneshot::Sender<Box<Claimed>>>,
}

impl Reservation {
    /// Returns the worker that will hold the run's lease.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Sends the run to the worker before its message is accepted. `run` is what the claim is expected
    /// to be. [`Self::hand_over`] confirms it; if the reservation is dropped, the worker drops the run.
    pub fn start_early(&mut self, run: Claimed) {
        let Some(slot) = self.slot.take() else { return };
        let (early, accepted) = oneshot::channel();
        let (accepted, asked_at) = (Some(accepted), self.reserved_at);
        if self.sender.send(HandOver { run, accepted, slot, asked_at }).is_ok() {
            self.early = Some(early);
        }
    }

    /// Sends the claimed run to the worker. Returns the run as the error if the worker has stopped.
    pub fn hand_over(self, run: Claimed) -> Result<(), Box<Claimed>> {
        let Self { slot, sender, reserved_at: asked_at, early, .. } = self;
        match (early, slot) {
            (Some(early), _) => early.send(Box::new(run)),
            (None, Some(slot)) => {
                let unsent = sender.send(HandOver { run, accepted: None, slot, asked_at });
                unsent.map_err(|unsent| Box::new(unsent.0.run))
            }
            (None, None) => Err(Box::new(run)),
        }
    }
}

/// The hand-over queue of a process. It is closed until the worker opens it.
#[derive(Debug, Default)]
pub(super) struct HandOverQueue(Mutex<Option<OpenQueue>>);

#[derive(Debug)]
struct OpenQueue {
    worker: WorkerId,
    slots: WorkerSlots,
    sender: UnboundedSender<HandOver>,
}

impl HandOverQueue {
    pub(super) fn open(&self, worker: WorkerId, slots: WorkerSlots) -> UnboundedReceiver<HandOver> {
        let (sender, receiver) = unbounded_channel();
        *self.state() = Some(OpenQueue { worker, slots, sender });
        receiver
    }

    pub(super) fn close(&self) {
        *self.state() = None;
    }

    pub(super) fn reserve(&self) -> Option<Reservation> {
        let state = self.state();
        let open = state.as_ref()?;
        let WorkerSlots { has_queue, is_memory_full, .. } = &open.slots;
        if has_queue.load(Ordering::Relaxed) || is_memory_full.load(Ordering::Relaxed) {
            return None;
        }
        let slot = Arc::clone(&open.slots.free).try_acquire_owned().ok()?;
        let (worker, sender) = (open.worker, open.sender.clone());
        let (slot, reserved_at) = (Some(slot), since_boot());
        Some(Reservation { worker, slot, reserved_at, sender, early: None })
    }

    fn state(&self) -> MutexGuard<'_, Option<OpenQueue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
