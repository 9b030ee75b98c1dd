//! Where a drive begins: at the user message, or where an earlier attempt left off.

use crate::agent::{AgentLoop, Bounds, Step};
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::message::{Content, Message, Role};
use crate::domain::note::Note;
use crate::domain::usage::{Spent, Usage};
use crate::store::claim::MAX_TAKEOVERS;
use crate::store::messages::list_of_run;
use crate::store::step::{NewMessage, StepCommit};
use crate::store::sub_agents::used_by_ended;
use crate::store::usage::{of_run, used_by_tools};
use crate::worker::run::database_retry::{Patience, in_time};
use crate::worker::run::driver::{Driver, empty, user_message};
use crate::worker::run::stop_cause::Halt;

impl Driver<'_> {
    /// Brings the loop to where the stored messages are, and the user message into the history
    /// if it is not there.
    pub(in crate::worker) async fn begin(&mut self) -> Result<(), Halt> {
        if let Some(span) = self.run.begun {
            self.span = Some(span);
            return self.go_on_from_acceptance().await;
        }
        self.resume(self.run.fence.attempt > 1).await?;
        // Only now is it known where the run stands, so that it can be settled properly.
        if self.run.takeovers > MAX_TAKEOVERS {
            return Err(Halt::CrashLoop);
        }
        // Taken up only to be settled: a call that waited for a word must not run now.
        if self.run.is_cancelled {
            return Err(Halt::Cancelled);
        }
        let attempt = self.run.fence.attempt;
        if attempt > 1 {
            tracing::info!(run.id = %self.run_id(), attempt, "a run is taken over");
        }
        let mut events = vec![NewEvent::new(&EventBody::StatusRunning { attempt })];
        self.announce_request(&mut events);
        if self.is_begun {
            // A worker that dies after this has made no progress.
            let step = StepCommit { events: &events, is_progress: false, ..empty() };
            return self.store(&[], &step).await;
        }
        let message = NewMessage {
            message_id: self.run.message_id.clone(),
            model: None,
            message: user_message(Content::parse(self.run.input.clone())?),
        };
        let step = StepCommit { events: &events, dequeues: true, ..empty() };
        self.store(&[message], &step).await
    }

    /// The permission mode that the message names holds from its first request on.
    pub(in crate::worker) async fn enter_mode(&mut self) -> Result<(), Halt> {
        let Some(mode) = self.run.options.permission_mode else { return Ok(()) };
        let is_first = matches!(self.agent.step(), Step::CallModel { is_first: true });
        if !is_first || self.run.permissions.mode == Some(mode) {
            return Ok(());
        }
        let events = [NewEvent::new(&EventBody::mode(mode))];
        let notes = [Note::Mode(mode)];
        let step = StepCommit { events: &events, notes: &notes, ..empty() };
        self.store(&[], &step).await
    }

    /// Brings the loop to where the stored messages are, whatever it thought before.
    pub(in crate::worker) async fn resume(&mut self, may_be_begun: bool) -> Result<(), Halt> {
        let mut patience = Patience::default();
        let (messages, by_tools, by_others) = loop {
            match in_time(self.load(may_be_begun)).await {
                Ok(messages) => break messages,
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        };
        if messages.is_empty() {
            return Ok(());
        }
        self.is_begun = true;
        let bounds = Bounds::new(&self.limits, self.run.settings.price);
        self.agent = AgentLoop::resume(&messages, bounds)?;
        self.agent.spend_besides(by_tools);
        self.agent.spend_for_others(&by_others);
        self.is_resumed = true;
        Ok(())
    }

    /// Brings the transcript up to date, and reads what the run has stored if it may have begun.
    /// The usage is that of requests which no message shows: of tools, and of sub-agents that are done.
    pub(in crate::worker) async fn load(
        &mut self,
        may_be_begun: bool,
    ) -> Result<(Vec<Message>, Usage, Spent), Halt> {
        let mut conn = self.worker.parts.pool.acquire().await?;
        self.transcript.catch_up(&mut conn, self.run.session_id).await?;
        let (mut stored, mut by_tools) = (Vec::new(), Usage::default());
        let mut by_others = Spent::default();
        if may_be_begun {
            stored = list_of_run(&mut conn, self.run_id()).await?;
            self.spent = of_run(&mut conn, self.run_id()).await?;
            by_tools = used_by_tools(&mut conn, self.session_id(), self.run_id()).await?;
            by_others = used_by_ended(&mut conn, self.run_id()).await?;
        }
        conn.give_back();
        let messages = stored.into_iter().map(|stored| stored.message).collect();
        Ok((messages, by_tools, by_others))
    }

    /// The run was begun when its message was accepted. Mostly the message is the only one that
    /// the transcript does not have.
    async fn go_on_from_acceptance(&mut self) -> Result<(), Halt> {
        if self.transcript.seq() + 1 == self.run.last_message_seq {
            self.transcript.push(Role::User, &self.run.input);
            return Ok(());
        }
        self.resume(false).await
    }
}
