//! The memory that the histories of the runs in progress use. A run that waits for the model holds its
//! history, so the number of runs alone does not bound the memory of the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Histories that are read from the database at once: together they may exceed the limit.
const READS_AT_ONCE: usize = 16;
/// A history is in memory twice: as the transcript of the run and in the body of its request.
const COPIES: usize = 2;

/// The memory of the histories of all runs of a process.
#[derive(Debug)]
pub(in crate::worker) struct HistoryMemory {
    limit: usize,
    used: Mutex<usize>,
    is_full: Arc<AtomicBool>,
    has_room: Notify,
    reads: Arc<Semaphore>,
}

impl HistoryMemory {
    /// A limit in bytes. One history that is larger fits if there is no other.
    pub(in crate::worker) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: Mutex::default(),
            is_full: Arc::default(),
            has_room: Notify::new(),
            reads: Arc::new(Semaphore::new(READS_AT_ONCE)),
        })
    }

    /// True while no further history fits.
    pub(in crate::worker) fn is_full(&self) -> &Arc<AtomicBool> {
        &self.is_full
    }

    /// Waits until a further history fits.
    pub(in crate::worker) async fn room(&self) {
        loop {
            let has_room = self.has_room.notified();
            if !self.is_full.load(Ordering::SeqCst) {
                return;
            }
            has_room.await;
        }
    }

    /// Waits until a history may be read. The permit is held until it is counted. Returns `None` if no
    /// further history fits: the caller must not wait for [`Self::room`] with a permit or a slot, which
    /// the runs that use the memory may need.
    pub(in crate::worker) async fn read(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.reads).acquire_owned().await.ok();
        permit.filter(|_| !self.is_full.load(Ordering::SeqCst))
    }

    /// Replaces a number of bytes by another.
    fn replace(&self, fewer: usize, more: usize) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used = *used + more - fewer;
        let is_full = *used >= self.limit;
        if self.is_full.swap(is_full, Ordering::SeqCst) && !is_full {
            self.has_room.notify_waiters();
        }
    }
}

/// The history of one run, as far as it is counted. It no longer counts when this is dropped.
#[derive(Debug)]
pub(in crate::worker) struct HeldHistory {
    memory: Arc<HistoryMemory>,
    bytes: usize,
}

impl HeldHistory {
    pub(in crate::worker) fn none(memory: &Arc<HistoryMemory>) -> Self {
        Self { memory: Arc::clone(memory), bytes: 0 }
    }

    pub(in crate::worker) fn memory(&self) -> &Arc<HistoryMemory> {
        &self.memory
    }

    /// Sets the size of the history in bytes.
    pub(in crate::worker) fn set(&mut self, history: usize) {
        let bytes = history.saturating_mul(COPIES);
        if bytes != self.bytes {
            self.memory.replace(self.bytes, bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for HeldHistory {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_history_is_read_when_those_in_memory_leave_room_for_it() {
        let memory = HistoryMemory::new(100);
        let (mut one, mut other) = (HeldHistory::none(&memory), HeldHistory::none(&memory));
        one.set(30);
        assert!(memory.read().await.is_some(), "60 of 100 bytes are used");
        other.set(20);
        assert!(memory.is_full().load(Ordering::SeqCst));
        assert!(memory.read().await.is_none(), "100 bytes are used");
        let waiting = memory.room();
        tokio::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none());
        one.set(10);
        assert!(waiting.now_or_never().is_some(), "60 bytes are used");
        assert!(memory.read().await.is_some());
        drop((one, other));
        assert_eq!(*memory.used.lock().unwrap(), 0);
    }

    #[tokio::test]
    async fn one_history_may_exceed_the_limit() {
        let memory = HistoryMemory::new(1);
        memory.room().await;
        let mut only = HeldHistory::none(&memory);
        only.set(1000);
        assert!(memory.room().now_or_never().is_none());
        drop(only);
        memory.room().await;
    }
}
