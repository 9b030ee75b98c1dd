//! Group commit: what requests or runs of a process write at the same time is written by one statement.
//!
//! A write that finds no other under way is made at once. Writes that arrive meanwhile wait, and one
//! statement then makes all of them, each under its own conditions. So a busy process needs few
//! statements and few flushes of the disk, and a quiet one waits for nothing.
//!
//! A statement is executed by a task of its own: a caller that does something else meanwhile delays no
//! other.

mod tenant_groups;

use std::collections::HashSet;
use std::fmt::Debug;
use std::mem::take;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::PgConnection;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::StoreError;
use super::connections::Scope;
use super::retry::in_time;
use crate::domain::ids::SessionId;
pub use tenant_groups::TenantGroups;

/// Maximum number of writes of one statement.
const MAX_WRITES: usize = 64;
/// Maximum size of the texts of a write that is made together with others, in bytes.
const MAX_SIZE: usize = 64 << 10;
/// Time after which the next writes no longer wait for a statement, which may be waiting for a lock.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// A write that one statement makes together with others of its kind.
pub trait GroupWrite: Debug + Send + Sync + Sized + 'static {
    /// What became of a write.
    type Written: Debug + Send + 'static;

    /// The number of statements that may be under way at the same time.
    const STATEMENTS: usize;

    /// The session that the write changes. A statement makes at most one write of a session.
    fn session_id(&self) -> SessionId;

    /// The approximate size of its texts in bytes.
    fn size(&self) -> usize;

    /// Makes all writes, and returns what became of each, in their order. An error concerns all of
    /// them. A statement for several leaves out sessions that other transactions have locked.
    fn write_all(
        conn: &mut PgConnection,
        writes: &[&Self],
    ) -> impl Future<Output = Result<Vec<Self::Written>, StoreError>> + Send;
}

/// The result of a write.
#[derive(Debug)]
pub enum Grouped<T> {
    /// The statement has made the write, or has found that it may not be made.
    Done(T),
    /// Nothing was written: the write is too large, or another one of the group may be the cause. The
    /// caller must make the write on its own.
    NotWritten,
    /// It is unknown whether the write was made: no answer came.
    Unknown,
}

/// The writes of a process that wait to be made.
#[derive(Debug)]
pub struct GroupCommit<T: GroupWrite> {
    scope: Scope,
    queue: Arc<Queue<T>>,
}

#[derive(Debug)]
struct Queue<T: GroupWrite>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T: GroupWrite> {
    waiting: Vec<Waiting<T>>,
    /// The number of tasks that make the writes that wait.
    turns: usize,
}

#[derive(Debug)]
struct Waiting<T: GroupWrite> {
    write: T,
    reply: oneshot::Sender<Result<Grouped<T::Written>, StoreError>>,
}

impl<T: GroupWrite> GroupCommit<T> {
    /// Makes writes on these connections.
    pub fn new(scope: impl Into<Scope>) -> Self {
        let state = State { waiting: Vec::new(), turns: 0 };
        Self { scope: scope.into(), queue: Arc::new(Queue(Mutex::new(state))) }
    }

    /// Makes a write, together with others if a statement is under way.
    pub async fn write(&self, write: T) -> Result<Grouped<T::Written>, StoreError> {
        if write.size() > MAX_SIZE {
            return Ok(Grouped::NotWritten);
        }
        let (reply, written) = oneshot::channel();
        self.queue.state().waiting.push(Waiting { write, reply });
        Turn::begin(&self.queue, &self.scope);
        written.await.unwrap_or(Ok(Grouped::Unknown))
    }
}

#[cfg(test)]
impl<T: GroupWrite> GroupCommit<T> {
    /// Takes all turns, as statements that are under way. The result is one of them, and makes the
    /// writes that wait.
    fn hold_turn(&self) -> Turn<T> {
        self.queue.state().turns = T::STATEMENTS;
        Turn { queue: Arc::clone(&self.queue), scope: self.scope.clone(), has_ended: false }
    }
}

impl<T: GroupWrite> Queue<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to make the writes that wait.
struct Turn<T: GroupWrite> {
    queue: Arc<Queue<T>>,
    scope: Scope,
    has_ended: bool,
}

impl<T: GroupWrite> Turn<T> {
    /// Takes a turn, if one is free.
    fn take(queue: &Arc<Queue<T>>, scope: &Scope) -> Option<Self> {
        let mut state = queue.state();
        if state.turns >= T::STATEMENTS || state.waiting.is_empty() {
            return None;
        }
        state.turns += 1;
        drop(state);
        Some(Self { queue: Arc::clone(queue), scope: scope.clone(), has_ended: false })
    }

    /// Begins to make the writes that wait, if a turn is free.
    fn begin(queue: &Arc<Queue<T>>, scope: &Scope) {
        if let Some(turn) = Self::take(queue, scope) {
            TaskTracker::new().spawn(turn.write_all());
        }
    }

    /// Makes the writes that wait, and those that come meanwhile.
    async fn write_all(mut self) {
        while let Some(group) = self.next() {
            let (queue, scope) = (Arc::clone(&self.queue), self.scope.clone());
            let mut writing = pin!(write_group(&scope, group));
            if timeout(MAX_WAIT, &mut writing).await.is_err() {
                self.end();
                Self::begin(&queue, &scope);
                return writing.await;
            }
        }
    }

    fn end(mut self) {
        self.has_ended = true;
        self.queue.state().turns -= 1;
    }

    /// Takes the writes that waited longest, at most one of each session. If there are none, the turn
    /// has ended.
    fn next(&mut self) -> Option<Vec<Waiting<T>>> {
        let mut state = self.queue.state();
        let mut sessions = HashSet::new();
        let (mut group, mut rest) = (Vec::new(), Vec::new());
        for waiting in state.waiting.drain(..) {
            if waiting.reply.is_closed() {
                // The caller of this write was stopped.
            } else if group.len() < MAX_WRITES && sessions.insert(waiting.write.session_id()) {
                group.push(waiting);
            } else {
                rest.push(waiting);
            }
        }
        state.waiting = rest;
        if group.is_empty() {
            state.turns -= 1;
            self.has_ended = true;
            return None;
        }
        Some(group)
    }
}

impl<T: GroupWrite> Drop for Turn<T> {
    /// A turn that ends by a defect leaves the writes to their callers.
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let mut state = self.queue.state();
        state.turns -= 1;
        let left = take(&mut state.waiting);
        drop(state);
        drop(left);
    }
}

/// Makes writes with one statement. If the statement fails for several, each caller makes its write on
/// its own.
async fn write_group<T: GroupWrite>(scope: &Scope, group: Vec<Waiting<T>>) {
    let (writes, replies): (Vec<T>, Vec<_>) =
        group.into_iter().map(|waiting| (waiting.write, waiting.reply)).unzip();
    let written = in_time(write_all(scope, &writes)).await;
    let count = replies.len();
    let mut replies = replies.into_iter();
    match written {
        Ok(Ok(written)) => {
            for (reply, written) in replies.zip(written) {
                // A caller that was stopped does not wait for it any more.
                let _ = reply.send(Ok(Grouped::Done(written)));
            }
        }
        Ok(Err(error)) | Err(error) if count == 1 => {
            let _ = replies.next().map(|reply| reply.send(Err(error)));
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, writes = count, "a group is written one by one");
            for reply in replies {
                let _ = reply.send(Ok(Grouped::NotWritten));
            }
        }
        Err(error) => {
            tracing::debug!(%error, writes = count, "the answer to a group was lost");
        }
    }
}

/// Makes writes with one statement. The inner error is that of a statement that changed nothing, and
/// after which the connection is as before.
async fn write_all<T: GroupWrite>(
    scope: &Scope,
    writes: &[T],
) -> Result<Result<Vec<T::Written>, StoreError>, StoreError> {
    let writes: Vec<&T> = writes.iter().collect();
    let work = async |conn: &mut PgConnection| match T::write_all(conn, &writes).await {
        Err(error) if error.is_of_statement() => Ok(Err(error)),
        written => written.map(Ok),
    };
    scope.with(work).await
}

#[cfg(test)]
mod tests;
