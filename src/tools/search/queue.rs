//! A job queue for several threads whose jobs can add jobs.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A last-in, first-out queue, which keeps the number of waiting jobs small.
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

/// Guard of a running job. Dropping it finishes the job and adds its new jobs, also after a
/// failure.
#[derive(Debug)]
pub(super) struct JobGuard<'a, J> {
    queue: &'a Queue<J>,
    /// The jobs that this job adds.
    pub(super) new: Vec<J>,
}

impl<J> Queue<J> {
    pub(super) fn new(first: J) -> Self {
        let state = State { waiting: vec![first], running: 0 };
        Self { state: Mutex::new(state), more: Condvar::new() }
    }

    /// Waits for the next job. Returns `None` when all jobs are finished.
    pub(super) fn take(&self) -> Option<(J, JobGuard<'_, J>)> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop() {
                state.running += 1;
                return Some((job, JobGuard { queue: self, new: Vec::new() }));
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

impl<J> Drop for JobGuard<'_, J> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.waiting.append(&mut self.new);
        state.running -= 1;
        drop(state);
        self.queue.more.notify_all();
    }
}
