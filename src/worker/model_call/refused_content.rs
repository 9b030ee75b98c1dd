//! What a request begins with, and what is done when the model's side refuses a part of it.

use serde_json::value::RawValue;

use crate::agent::sent_view::replacing;
use crate::domain::claim::Claimed;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::note::Note;
use crate::domain::prefix::{Hash, PrefixHashes};
use crate::domain::sent::{Place, SentChange};
use crate::model::{Head, ModelError, Refused};
use crate::store::messages::list_lines;
use crate::store::step::StepCommit;
use crate::worker::run::database_retry::{Patience, in_time};
use crate::worker::run::driver::{Driver, empty};
use crate::worker::run::stop_cause::Halt;
use crate::worker::transcript::HeadHashes;

/// The hashes of what all requests of a run begin with.
pub(in crate::worker) fn head_hashes(run: &Claimed) -> HeadHashes {
    let tools_of_run = run.options.tools.as_deref();
    let tools = [Some(run.settings.tools.as_ref()), tools_of_run];
    HeadHashes {
        tools: Hash::of(tools.into_iter().flatten().map(RawValue::get)),
        system: Hash::of([run.settings.system.json().get()]),
    }
}

impl Driver<'_> {
    /// Notes what the next request begins with, and tells if the one before it began otherwise:
    /// the cache is lost then, and maybe the thinking.
    pub(in crate::worker) fn report_prefix(&mut self) -> PrefixHashes {
        let (hashes, change) = self.transcript.send(self.head);
        tracing::debug!(
            run.id = %self.run_id(),
            prefix.tools = %hashes.tools,
            prefix.system = %hashes.system,
            prefix.messages = %hashes.messages,
            prefix.message_count = hashes.message_count,
            "a request is made"
        );
        let Some(change) = change else { return hashes };
        self.worker.parts.metrics.prefix_changed(change);
        tracing::warn!(
            session.id = %self.session_id(),
            run.id = %self.run_id(),
            prefix.change = ?change,
            "a request does not begin as the one before it"
        );
        self.prefix_changed.get_or_insert(change);
        hashes
    }

    /// Leaves out of all further requests what the model's side refused; fails with its error if
    /// that names nothing that could be left out.
    pub(in crate::worker) async fn amend(
        &mut self,
        head: &Head,
        error: ModelError,
    ) -> Result<(), Halt> {
        let changes = match head.refused(self.transcript.messages().text, &error) {
            Some(Refused::Thinking) => self.transcript.without_thinking().into_iter().collect(),
            Some(Refused::Summary) => self.transcript.without_summary().into_iter().collect(),
            Some(Refused::Blocks(places)) => self.without_blocks(&places).await?,
            None => Vec::new(),
        };
        if changes.is_empty() {
            return Err(Halt::Model(error));
        }
        for change in &changes {
            self.worker.parts.metrics.sent_changed(change);
            tracing::warn!(
                session.id = %self.session_id(), run.id = %self.run_id(), ?change, %error,
                "a part of the history is sent no more"
            );
        }
        let events: Vec<NewEvent> =
            changes.iter().map(|change| NewEvent::new(&EventBody::sent(change.clone()))).collect();
        let notes: Vec<Note> = changes.into_iter().map(Note::Sent).collect();
        let request = self.unanswered(Some(&error.for_clients()));
        let request = request.as_ref();
        self.store(&[], &StepCommit { events: &events, notes: &notes, request, ..empty() }).await?;
        self.read_again().await
    }

    /// The changes that put a word wherever the blocks at these places stand in the history, but
    /// for those that have been made.
    async fn without_blocks(&mut self, places: &[Place]) -> Result<Vec<SentChange>, Halt> {
        let unreadable = self.transcript.replaceable(places);
        if unreadable.is_empty() {
            return Ok(Vec::new());
        }
        let mut patience = Patience::default();
        loop {
            let lines = in_time(async {
                let mut conn = self.worker.parts.pool.acquire().await?;
                let lines = list_lines(&mut conn, self.session_id(), 0).await?;
                conn.give_back();
                Ok(lines)
            });
            match lines.await {
                Ok(lines) => {
                    let changes = lines.iter().flat_map(|line| {
                        unreadable.iter().flat_map(|raw| replacing(line.seq, &line.content, raw))
                    });
                    let made = &self.transcript.view().changes;
                    return Ok(changes.filter(|change| !made.contains(change)).collect());
                }
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        }
    }

    /// Reads the transcript anew.
    pub(in crate::worker) async fn read_again(&mut self) -> Result<(), Halt> {
        let mut patience = Patience::default();
        loop {
            match in_time(self.load(false)).await {
                Ok(_) => return Ok(()),
                Err(halt) => self.wait_out(&mut patience, halt).await?,
            }
        }
    }
}
