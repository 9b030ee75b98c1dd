//! The slots of a worker: the number of runs that it executes at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::bus::WorkerSlots;
use crate::worker::run::history_memory::{HeldHistory, HistoryMemory};
use crate::worker::run::slot::{Slot, TimeSlices};

/// Runs that may wait without a slot, for each slot: the process keeps each of them in memory, and
/// renews its lease.
const WAITING_PER_SLOT: usize = 8;
/// Runs that may wait without a slot, if there are few slots: a model that fails must not delay the
/// runs with others.
const LEAST_WAITING: usize = 1024;

/// The slots of a worker.
#[derive(Debug)]
pub(in crate::worker) struct Slots {
    free: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    slices: Arc<TimeSlices>,
    memory: Arc<HistoryMemory>,
}

impl Slots {
    /// A number of slots, and the memory in bytes that the histories of their runs may use.
    pub(in crate::worker) fn new(slots: usize, memory: usize) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let waiting = semaphore(slots.saturating_mul(WAITING_PER_SLOT).max(LEAST_WAITING));
        let slices = Arc::new(TimeSlices { has_queue: Arc::default(), paused: semaphore(slots) });
        Self { free: semaphore(slots), waiting, slices, memory: HistoryMemory::new(memory) }
    }

    /// The free slots.
    pub(in crate::worker) fn free(&self) -> &Arc<Semaphore> {
        &self.free
    }

    /// Waits for a slot, and for memory for one more history.
    pub(in crate::worker) async fn next(&self) -> Option<OwnedSemaphorePermit> {
        self.memory.room().await;
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    /// True while no run can start.
    pub(in crate::worker) fn are_taken(&self) -> bool {
        self.free.available_permits() == 0 || self.memory.is_full().load(Ordering::Relaxed)
    }

    /// The slots as requests see them, which hand runs over.
    pub(in crate::worker) fn for_requests(&self) -> WorkerSlots {
        WorkerSlots {
            free: Arc::clone(&self.free),
            has_queue: Arc::clone(&self.slices.has_queue),
            is_memory_full: Arc::clone(self.memory.is_full()),
        }
    }

    /// Sets whether queued runs may be waiting for a slot.
    pub(in crate::worker) fn set_queue(&self, has_queue: bool) {
        self.slices.has_queue.store(has_queue, Ordering::Relaxed);
    }

    /// The slot of a run. A run that exceeds the number of slots holds none.
    pub(in crate::worker) fn of_run(&self, held: Option<OwnedSemaphorePermit>) -> Slot {
        let history = HeldHistory::none(&self.memory);
        Slot::new(held, &self.free, &self.waiting, &self.slices, history)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::domain::suspicion::Suspicion;
    use crate::worker::claim::isolation::Isolation;
    use crate::worker::run::slot::TIME_SLICE;

    const MEMORY: usize = 1_000_000;

    fn slot(slots: &Slots) -> Slot {
        slots.of_run(Some(Arc::clone(slots.free()).try_acquire_owned().unwrap()))
    }

    #[tokio::test]
    async fn a_released_slot_is_free_for_other_runs() {
        let slots = Slots::new(1, MEMORY);
        let mut first = slot(&slots);
        first.release();
        let second = slot(&slots);
        assert_eq!(slots.free().available_permits(), 0);
        drop(second);
        first.reacquire().await;
        assert_eq!(slots.free().available_permits(), 0);
        drop(first);
        assert_eq!(slots.free().available_permits(), 1);
    }

    #[test]
    fn the_number_of_runs_that_wait_without_a_slot_is_limited() {
        let slots = Slots::new(1, MEMORY);
        let mut waiting = Vec::new();
        for _ in 0..LEAST_WAITING {
            let mut slot = slot(&slots);
            slot.release();
            waiting.push(slot);
        }
        let mut one_more = slot(&slots);
        one_more.release();
        assert_eq!(slots.free().available_permits(), 0, "the run keeps its slot");
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_gives_its_slot_to_queued_runs_after_its_time_slice() {
        let slots = Slots::new(1, MEMORY);
        let mut long = slot(&slots);
        slots.set_queue(true);
        long.end_time_slice();
        assert_eq!(slots.free().available_permits(), 0, "its time slice is not over");
        advance(TIME_SLICE).await;
        slots.set_queue(false);
        long.end_time_slice();
        assert_eq!(slots.free().available_permits(), 0, "no run waits");
        slots.set_queue(true);
        long.end_time_slice();
        drop(slot(&slots));
        long.reacquire().await;
        assert_eq!(slots.free().available_permits(), 0);
        long.end_time_slice();
        assert_eq!(slots.free().available_permits(), 0, "its next time slice has begun");
    }

    #[tokio::test]
    async fn a_run_that_waits_for_sub_agents_is_not_isolated_from_them() {
        let (slots, isolation) = (Slots::new(2, MEMORY), Isolation::default());
        let mut parent = slot(&slots);
        parent.isolate(isolation.permit(Suspicion::Isolated).unwrap());
        assert!(isolation.permit(Suspicion::Suspected).is_none());
        parent.yield_to_sub_agents();
        assert!(isolation.permit(Suspicion::Isolated).is_some());
    }

    #[tokio::test]
    async fn a_run_that_waits_for_memory_leaves_its_slot_to_the_runs_that_use_it() {
        let slots = Slots::new(1, 100);
        let mut long = slot(&slots);
        long.count_history(100);
        long.release();
        let mut new = slot(&slots);
        assert!(new.memory().read().await.is_none(), "no further history fits");
        new.yield_to_others();
        long.reacquire().await;
        drop(long);
        new.memory().room().await;
        new.reacquire().await;
        assert_eq!(slots.free().available_permits(), 0);
    }

    #[tokio::test]
    async fn a_run_that_waits_for_sub_agents_never_holds_a_slot_that_they_need() {
        let slots = Slots::new(1, MEMORY);
        let mut parents = Vec::new();
        for _ in 0..=2 * WAITING_PER_SLOT {
            let mut parent = slot(&slots);
            parent.yield_to_sub_agents();
            parents.push(parent);
        }
        assert_eq!(slots.free().available_permits(), 1);
        parents[0].reacquire().await;
        assert_eq!(slots.free().available_permits(), 0);
    }
}
