//! Where a drive begins: at the user message, or where an earlier attempt left off.

use super::drive::{Driver, empty, user_message};
use super::halt::Halt;
use crate::agent::{AgentLoop, Bounds};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::message::{Content, Message, Role};
use crate::store::claim::MAX_TAKEOVERS;
use crate::store::messages::list_of_run;
use crate::store::step::{NewMessage, StepCommit};

impl Driver<'_> {
    /// Brings the loop to where the stored messages are, and the user message into the history
    /// if it is not there.
    pub(super) async fn begin(&mut self) -> Result<(), Halt> {
        if let Some(span) = self.run.begun {
            self.span = span;
            return self.go_on_from_acceptance().await;
        }
        let stored = self.look().await?;
        if stored.is_empty() {
            self.start_run().await
        } else {
            self.resume(&stored).await
        }
    }

    /// The run was begun when its message was accepted. Mostly the message is the only one that
    /// the transcript does not have.
    async fn go_on_from_acceptance(&mut self) -> Result<(), Halt> {
        if self.transcript.seq() + 1 == self.run.last_message_seq {
            self.transcript.push(Role::User, &self.run.input);
            return Ok(());
        }
        let mut conn = self.worker.parts.pool.acquire().await?;
        Ok(self
            .transcript
            .catch_up(&mut conn, self.run.session_id)
            .await?)
    }

    /// Reads what there is of the history and of the run.
    async fn look(&mut self) -> Result<Vec<Message>, Halt> {
        let mut conn = self.worker.parts.pool.acquire().await?;
        self.transcript
            .catch_up(&mut conn, self.session_id())
            .await?;
        if self.run.fence.attempt == 1 {
            return Ok(Vec::new());
        }
        let stored = list_of_run(&mut conn, self.run_id()).await?;
        self.is_begun = !stored.is_empty();
        Ok(stored.into_iter().map(|stored| stored.message).collect())
    }

    async fn start_run(&mut self) -> Result<(), Halt> {
        self.give_up_on_crash_loop()?;
        let message = NewMessage {
            message_id: self.run.message_id.clone(),
            model: None,
            message: user_message(Content::parse(self.run.input.clone())?),
        };
        let events = self.first_events();
        let step = StepCommit {
            events: &events,
            dequeues: true,
            ..empty()
        };
        self.store(&[message], &step).await
    }

    async fn resume(&mut self, stored: &[Message]) -> Result<(), Halt> {
        let bounds = Bounds::new(&self.limits, self.run.settings.price);
        self.agent = AgentLoop::resume(stored, bounds)?;
        self.is_resumed = true;
        for message in stored {
            self.usage += message.usage;
        }
        self.give_up_on_crash_loop()?;
        let events = self.first_events();
        // A worker that dies after this has made no progress.
        self.store(
            &[],
            &StepCommit {
                events: &events,
                is_progress: false,
                ..empty()
            },
        )
        .await
    }

    /// Only once it is known where the run stands, so that it can be settled properly.
    fn give_up_on_crash_loop(&self) -> Result<(), Halt> {
        if self.run.takeovers > MAX_TAKEOVERS {
            Err(Halt::CrashLoop)
        } else {
            Ok(())
        }
    }

    fn first_events(&mut self) -> Vec<NewEvent> {
        let attempt = self.run.fence.attempt;
        let mut events = vec![NewEvent::new(&EventBody::StatusRunning { attempt })];
        self.announce_request(&mut events);
        events
    }
}
