//! What a driver writes: one step at a time, under its fence, and exactly once.

use sqlx::PgConnection;

use crate::domain::event::NewEvent;
use crate::domain::note::Note;
use crate::domain::permission::PermissionMode;
use crate::faults::{self, Point};
#[cfg(feature = "faults")]
use crate::store::bugs::commit;
#[cfg(not(feature = "faults"))]
use crate::store::step::commit;
use crate::store::step::{Committed, Landed, NewMessage, StepCommit, landed};
use crate::worker::run::database_retry::{Patience, in_time};
use crate::worker::run::driver::{Driver, empty};
use crate::worker::run::stop_cause::Halt;

impl Driver<'_> {
    /// Stores events, and nothing else, as a step.
    pub(in crate::worker) async fn tell(&mut self, events: &[NewEvent]) -> Result<(), Halt> {
        self.store(&[], &StepCommit { events, ..empty() }).await
    }

    /// Commits a step, tells readers of it, and keeps the transcript in line with the history.
    pub(in crate::worker) async fn store(
        &mut self,
        messages: &[NewMessage],
        step: &StepCommit<'_>,
    ) -> Result<(), Halt> {
        if self.signals.lost.is_cancelled() {
            return Err(Halt::LeaseLost);
        }
        let step = StepCommit { messages, ..*step };
        let mut patience = Patience::default();
        let committed = loop {
            match in_time(self.try_store(&step, patience.is_tried())).await {
                Ok(committed) => break committed,
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        };
        self.steps += 1;
        let point = if step.settles.is_some() { Point::Settled } else { Point::StepStored };
        faults::point(point).await;
        if let Some((status, _)) = step.settles {
            self.worker.parts.metrics.run_settled(status);
        }
        let noted = step.notes.iter().rev().find_map(|note| match note {
            Note::Mode(mode) => Some(*mode),
            Note::Seen { .. }
            | Note::Todos(_)
            | Note::ToldServers(_)
            | Note::Sent(_)
            | Note::Compacted(_) => None,
        });
        self.take_mode(noted.or(committed.permission_mode));
        self.others_wait = committed.queued > 0;
        self.is_budgeted = committed.is_budgeted;
        self.is_begun |= step.dequeues;
        self.worker.parts.bus.publish(self.run.session_id, committed.frames);
        for message in messages {
            self.transcript.push(message.message.role, message.message.content.as_str());
        }
        Ok(())
    }

    /// A client may change the session's permission mode at any time; a step finds out.
    fn take_mode(&mut self, mode: Option<PermissionMode>) {
        if mode != self.run.permissions.mode {
            self.run.permissions.mode = mode;
            self.policy = None;
        }
    }

    /// A step that was tried before may have been written although nobody heard of it.
    async fn try_store(&self, step: &StepCommit<'_>, is_tried: bool) -> Result<Committed, Halt> {
        let mut conn = self.worker.parts.pool.acquire().await?;
        let fence = self.run.fence;
        let mut committed = None;
        if is_tried {
            committed = self.landed(&mut conn).await?;
        }
        if committed.is_none() {
            committed = commit(&mut conn, self.session_id(), fence, self.steps, step).await?;
        }
        if committed.is_none() && is_tried {
            // The first try was still under way.
            committed = self.landed(&mut conn).await?;
        }
        conn.give_back();
        committed.ok_or_else(|| {
            self.worker.parts.metrics.step_fenced();
            Halt::LeaseLost
        })
    }

    /// What a step that was written left, if it was.
    async fn landed(&self, conn: &mut PgConnection) -> Result<Option<Committed>, Halt> {
        match landed(conn, self.run.fence, self.steps).await? {
            Landed::No => Ok(None),
            Landed::Fenced => Err(Halt::LeaseLost),
            Landed::Yes { queued, is_budgeted, permission_mode } => {
                // Readers find its events in the database.
                self.worker.parts.bus.look_again(self.session_id());
                let frames = Vec::new();
                Ok(Some(Committed { frames, queued, is_budgeted, permission_mode }))
            }
        }
    }
}
