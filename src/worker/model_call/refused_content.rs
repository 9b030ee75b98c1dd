//! Content that the model's server refused: all further requests leave it out.

use std::collections::BTreeSet;

use super::ModelCalls;
use crate::agent::sent_view::changes_that_replace;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::sent_history::SentHistoryChange;
use crate::domain::state_change::StateChange;
use crate::model::{Head, ModelError, RefusedContent};
use crate::store::messages::list_lines;
use crate::store::step::StepCommit;
use crate::worker::run::state::RunState;
use crate::worker::run::step_writer::StepWriter;
use crate::worker::run::stop_cause::StopCause;
use crate::worker::tool_round::images::excess_images;

impl ModelCalls<'_> {
    /// Leaves out of all further requests the content that the model's server refused. Fails with
    /// the server's error if that names nothing that can be left out.
    pub(super) async fn leave_out_refused(
        &mut self,
        state: &mut RunState<'_>,
        head: &Head,
        error: ModelError,
    ) -> Result<(), StopCause> {
        let writer = &mut state.writer;
        let transcript = &writer.transcript;
        let changes = match head.refused_content(transcript.messages().text, &error) {
            Some(RefusedContent::Thinking) => transcript.without_thinking().into_iter().collect(),
            Some(RefusedContent::Summary) => transcript.without_summary().into_iter().collect(),
            Some(RefusedContent::Blocks(positions)) => {
                let unreadable = transcript.replaceable_blocks(&positions);
                self.without_blocks(writer, &unreadable).await?
            }
            Some(RefusedContent::ExcessImages) => {
                let excess = excess_images(transcript.messages().text);
                self.without_blocks(writer, &transcript.oldest_tool_images(excess)).await?
            }
            Some(RefusedContent::OpenCode) => {
                self.without_blocks(writer, &transcript.open_server_calls()).await?
            }
            Some(RefusedContent::Container) if self.names_container() => {
                return self.leave_out_container(state, error).await;
            }
            Some(RefusedContent::Container) | None => Vec::new(),
        };
        if changes.is_empty() {
            return Err(StopCause::Model(error));
        }
        for change in &changes {
            self.run.services.metrics.sent_changed(change);
            tracing::warn!(
                session.id = %self.run.session_id(), run.id = %self.run.run_id(), ?change, %error,
                "part of the history left out of further requests"
            );
        }
        let mut events: Vec<NewEvent> =
            changes.iter().map(|change| NewEvent::new(&EventBody::sent(change.clone()))).collect();
        let state_changes: Vec<StateChange> =
            changes.into_iter().map(StateChange::SentHistory).collect();
        let request = self.record_failure(&mut state.progress, Some(&error.for_clients()));
        let request = request.as_ref();
        self.report_replaced(&mut state.progress, &mut events);
        let step = StepCommit {
            events: &events,
            state_changes: &state_changes,
            request,
            ..Default::default()
        };
        writer.store(&[], &step).await?;
        writer.reload_transcript().await
    }

    /// True if the request in flight names the container of the session.
    fn names_container(&self) -> bool {
        self.in_flight.as_ref().is_some_and(|request| request.form.container.is_some())
    }

    /// Leaves out of all further requests the container that the model's server refused: the server
    /// makes a new one when it runs code again.
    async fn leave_out_container(
        &mut self,
        state: &mut RunState<'_>,
        error: ModelError,
    ) -> Result<(), StopCause> {
        tracing::warn!(
            session.id = %self.run.session_id(), run.id = %self.run.run_id(), %error,
            "container of the session left out of further requests"
        );
        let mut events = Vec::new();
        let request = self.record_failure(&mut state.progress, Some(&error.for_clients()));
        let request = request.as_ref();
        self.report_replaced(&mut state.progress, &mut events);
        let (events, state_changes) = (events.as_slice(), &[StateChange::Container(None)]);
        let step = StepCommit { events, request, state_changes, ..Default::default() };
        state.writer.store(&[], &step).await?;
        state.writer.reload_transcript().await
    }

    /// The changes that replace these blocks wherever they occur in the history, without those that
    /// are in force already.
    async fn without_blocks(
        &self,
        writer: &StepWriter<'_>,
        unreadable: &BTreeSet<String>,
    ) -> Result<Vec<SentHistoryChange>, StopCause> {
        if unreadable.is_empty() {
            return Ok(Vec::new());
        }
        let session_id = self.run.session_id();
        let pool = &self.run.services.pool;
        let list = |_| pool.with(async |conn| Ok(list_lines(conn, session_id, 0).await?));
        let lines = self.run.retry(list).await?;
        let changes = lines.iter().flat_map(|line| {
            unreadable.iter().flat_map(|raw| changes_that_replace(line.seq, &line.content, raw))
        });
        let in_force = &writer.transcript.view().changes;
        Ok(changes.filter(|change| !in_force.contains(change)).collect())
    }
}
