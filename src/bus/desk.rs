//! Where requests hand runs to the worker of the same process, so that a message to an idle
//! session is accepted and taken up in one statement.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::claim::Claimed;
use crate::domain::ids::WorkerId;

/// A run that begins, and the slot that it holds.
#[derive(Debug)]
pub struct HandOver {
    /// The run.
    pub run: Claimed,
    /// Its slot, given back when it is dropped.
    pub slot: OwnedSemaphorePermit,
}

/// A slot that is kept for a run that is about to be accepted.
#[derive(Debug)]
pub struct Reservation {
    worker: WorkerId,
    slot: OwnedSemaphorePermit,
    sender: UnboundedSender<HandOver>,
}

impl Reservation {
    /// Who will hold the run's lease.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Gives the run to the worker; back again if the worker has stopped meanwhile.
    pub fn hand_over(self, run: Claimed) -> Result<(), Box<Claimed>> {
        let Self { slot, sender, .. } = self;
        sender.send(HandOver { run, slot }).map_err(|unsent| Box::new(unsent.0.run))
    }
}

/// The desk of a process; closed until its worker opens it.
#[derive(Debug, Default)]
pub(super) struct Desk(Mutex<Option<Open>>);

#[derive(Debug)]
struct Open {
    worker: WorkerId,
    slots: Arc<Semaphore>,
    sender: UnboundedSender<HandOver>,
}

impl Desk {
    pub(super) fn open(
        &self,
        worker: WorkerId,
        slots: Arc<Semaphore>,
    ) -> UnboundedReceiver<HandOver> {
        let (sender, receiver) = unbounded_channel();
        *self.state() = Some(Open { worker, slots, sender });
        receiver
    }

    pub(super) fn close(&self) {
        *self.state() = None;
    }

    pub(super) fn reserve(&self) -> Option<Reservation> {
        let state = self.state();
        let open = state.as_ref()?;
        let slot = Arc::clone(&open.slots).try_acquire_owned().ok()?;
        Some(Reservation { worker: open.worker, slot, sender: open.sender.clone() })
    }

    fn state(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
