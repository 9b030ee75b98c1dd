//! A run's place among those that are worked on at a time, given back while it only waits.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A wait that is longer gives the place to another run.
pub(in crate::worker) const KEPT_FOR: Duration = Duration::from_secs(5);
/// Runs that wait without a place, for each place: each is held in memory, and its lease kept.
const WAITING: usize = 8;

/// The places of a worker.
#[derive(Debug)]
pub(in crate::worker) struct Slots {
    free: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Slots {
    pub(in crate::worker) fn new(slots: usize) -> Self {
        let semaphore = |places| Arc::new(Semaphore::new(places));
        Self { free: semaphore(slots), waiting: semaphore(slots.saturating_mul(WAITING)) }
    }

    /// Those that nobody has.
    pub(in crate::worker) fn free(&self) -> &Arc<Semaphore> {
        &self.free
    }

    /// The place of a run; a run too many has none.
    pub(in crate::worker) fn of_run(&self, held: Option<OwnedSemaphorePermit>) -> Slot {
        let Self { free, waiting } = self;
        Slot {
            held,
            free: Arc::clone(free),
            waiting: Arc::clone(waiting),
            waits: None,
            has_left: false,
        }
    }
}

/// The place of one run.
#[derive(Debug)]
pub(in crate::worker) struct Slot {
    held: Option<OwnedSemaphorePermit>,
    free: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// Given back until the wait ends.
    waits: Option<OwnedSemaphorePermit>,
    /// Given back to whom it waits for.
    has_left: bool,
}

impl Slot {
    /// Lets another run have the place, unless too many wait without one already.
    pub(in crate::worker) fn give_back(&mut self) {
        if self.held.is_none() {
            return;
        }
        if let Ok(waits) = Arc::clone(&self.waiting).try_acquire_owned() {
            self.waits = Some(waits);
            self.held = None;
        }
    }

    /// Lets another run have the place, however many wait without one: this run waits for others that
    /// need places, and would keep them from what it waits for.
    pub(in crate::worker) fn leave(&mut self) {
        self.has_left |= self.held.take().is_some();
    }

    /// Waits for a place, if this one was given back. Dropping the future changes nothing.
    pub(in crate::worker) async fn take_again(&mut self) {
        if self.waits.is_some() || self.has_left {
            // The places are never closed.
            self.held = Arc::clone(&self.free).acquire_owned().await.ok();
            self.waits = None;
            self.has_left = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(slots: &Slots) -> Slot {
        slots.of_run(Some(Arc::clone(slots.free()).try_acquire_owned().unwrap()))
    }

    #[tokio::test]
    async fn a_place_that_is_given_back_is_there_for_others() {
        let slots = Slots::new(1);
        let mut first = slot(&slots);
        first.give_back();
        let second = slot(&slots);
        assert_eq!(slots.free().available_permits(), 0);
        drop(second);
        first.take_again().await;
        assert_eq!(slots.free().available_permits(), 0);
        drop(first);
        assert_eq!(slots.free().available_permits(), 1);
    }

    #[test]
    fn not_everybody_may_wait_without_a_place() {
        let slots = Slots::new(1);
        let mut waiting = Vec::new();
        for _ in 0..WAITING {
            let mut slot = slot(&slots);
            slot.give_back();
            waiting.push(slot);
        }
        let mut one_more = slot(&slots);
        one_more.give_back();
        assert_eq!(slots.free().available_permits(), 0, "it keeps its place");
    }

    #[tokio::test]
    async fn whoever_waits_for_other_runs_never_has_a_place_that_they_need() {
        let slots = Slots::new(1);
        let mut parents = Vec::new();
        for _ in 0..=2 * WAITING {
            let mut parent = slot(&slots);
            parent.leave();
            parents.push(parent);
        }
        assert_eq!(slots.free().available_permits(), 1);
        parents[0].take_again().await;
        assert_eq!(slots.free().available_permits(), 0);
    }
}
