//! Group commit: steps that runs of a process finish at the same time are written by one statement.
//!
//! A step that finds no other under way is written at once by its own run. Steps that arrive
//! meanwhile wait, and one statement then writes all of them, each under its own fence. So a busy
//! process needs few statements and few flushes of the disk, and a quiet one waits for nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, oneshot};
use tokio_util::task::TaskTracker;

use crate::store::StoreError;
use crate::store::connections::Connections;
use crate::store::retry::in_time;
use crate::store::step::{EncodedStep, Written, write};

/// Maximum number of steps of one statement.
const MAX_STEPS: usize = 64;
/// Maximum size of the texts of a step that is written together with others, in bytes.
const MAX_SIZE: usize = 64 << 10;

/// The steps of a process that wait to be written.
#[derive(Debug)]
pub(in crate::worker) struct GroupCommit {
    pool: Connections,
    waiting: Arc<Mutex<Vec<Waiting>>>,
    /// The number of the next step.
    next: AtomicU64,
    /// Held while a statement is under way.
    turn: Arc<AsyncMutex<()>>,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    step: EncodedStep,
    reply: oneshot::Sender<Written>,
}

impl GroupCommit {
    pub(in crate::worker) fn new(pool: Connections) -> Self {
        Self { pool, waiting: Arc::default(), next: AtomicU64::default(), turn: Arc::default() }
    }

    /// Writes a step, together with others if a statement is under way. Returns `None` if it is unknown
    /// whether the step was written: the run must find out, and otherwise write it on its own.
    pub(in crate::worker) async fn write(
        &self,
        step: EncodedStep,
    ) -> Result<Option<Written>, StoreError> {
        if step.size() > MAX_SIZE {
            return Ok(Some(Written::Skipped));
        }
        let (reply, mut written) = oneshot::channel();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.push(Waiting { number, step, reply });
        loop {
            let turn = tokio::select! {
                biased;
                written = &mut written => return Ok(written.ok()),
                turn = Arc::clone(&self.turn).lock_owned() => turn,
            };
            // The previous holder of the turn may have written this step.
            match written.try_recv() {
                Ok(written) => return Ok(Some(written)),
                Err(TryRecvError::Closed) => return Ok(None),
                Err(TryRecvError::Empty) => {}
            }
            let group = self.take();
            if let [alone] = group.as_slice()
                && alone.number == number
            {
                let write_alone = async |conn: &mut _| write(conn, &[&alone.step]).await;
                let written = self.pool.with(write_alone).await?;
                return Ok(written.into_iter().next());
            }
            // The group may lack this step: it may have a full statement of older ones.
            TaskTracker::new().spawn(write_group(self.pool.clone(), group, turn));
        }
    }

    fn push(&self, waiting: Waiting) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(waiting);
    }

    /// Takes the steps that waited longest.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // The run of a step that nobody waits for was stopped.
        waiting.retain(|waiting| !waiting.reply.is_closed());
        let count = waiting.len().min(MAX_STEPS);
        waiting.drain(..count).collect()
    }
}

/// Writes steps with one statement. If it fails, no run gets a reply, and each writes its step on its
/// own: one of them may be the cause.
async fn write_group(pool: Connections, group: Vec<Waiting>, turn: OwnedMutexGuard<()>) {
    let steps: Vec<&EncodedStep> = group.iter().map(|waiting| &waiting.step).collect();
    let written = in_time(pool.with(async |conn| write(conn, &steps).await)).await;
    match written {
        Ok(written) => {
            for (waiting, written) in group.into_iter().zip(written) {
                // A run that was stopped does not wait for it any more.
                let _ = waiting.reply.send(written);
            }
        }
        Err(error) => {
            tracing::debug!(%error, steps = group.len(), "steps are written one by one");
        }
    }
    drop(turn);
}

#[cfg(test)]
mod tests;
