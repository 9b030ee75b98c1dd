//! Work that makes more work, shared by some threads.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Jobs, the newest first, so that few are open at a time.
#[derive(Debug)]
pub(super) struct Queue<J> {
    state: Mutex<State<J>>,
    more: Condvar,
}

#[derive(Debug)]
struct State<J> {
    waiting: Vec<J>,
    running: usize,
}

/// A job that was taken. Dropped when it is done, however it ended.
#[derive(Debug)]
pub(super) struct Taken<'a, J> {
    queue: &'a Queue<J>,
    /// Jobs that it made.
    pub(super) new: Vec<J>,
}

impl<J> Queue<J> {
    pub(super) fn new(first: J) -> Self {
        let state = State { waiting: vec![first], running: 0 };
        Self { state: Mutex::new(state), more: Condvar::new() }
    }

    /// The next job; none when all are done.
    pub(super) fn take(&self) -> Option<(J, Taken<'_, J>)> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop() {
                state.running += 1;
                return Some((job, Taken { queue: self, new: Vec::new() }));
            }
            if state.running == 0 {
                return None;
            }
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J> Drop for Taken<'_, J> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.waiting.append(&mut self.new);
        state.running -= 1;
        drop(state);
        self.queue.more.notify_all();
    }
}
