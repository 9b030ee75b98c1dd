//! Reports of a changed request prefix, which invalidates the prompt cache.

use super::ModelCalls;
use crate::domain::history_repair::HistoryRepair;
use crate::domain::prefix::{Hash, PrefixChange, PrefixHashes};
use crate::domain::tool::ToolChoice;
use crate::worker::run::step_writer::StepWriter;
use crate::worker::transcript::HeadHashes;

impl ModelCalls<'_> {
    /// Records the prefix of the next request, and reports if the request before it began with other
    /// content: the prompt cache is lost then, and thinking may be refused. `found` are the deferred
    /// tools whose definitions the request contains because the model has found them.
    pub(super) fn report_prefix(
        &mut self,
        writer: &mut StepWriter<'_>,
        choice: &ToolChoice,
        found: &[String],
    ) -> PrefixHashes {
        let run = self.run;
        // A tool choice always serializes.
        let choice = serde_json::to_string(choice).unwrap_or_default();
        self.sent_tools = with_found(self.head_hashes.tools, found);
        let choice = Hash::of([choice.as_str()]);
        let head = HeadHashes { choice, tools: self.sent_tools, ..self.head_hashes };
        let (hashes, change) = writer.transcript.send(head, &run.settings().model);
        tracing::debug!(
            run.id = %run.run_id(),
            prefix.tools = %hashes.tools,
            prefix.system = %hashes.system,
            prefix.messages = %hashes.messages,
            prefix.message_count = hashes.message_count,
            "model request built"
        );
        let Some(change) = change else { return hashes };
        run.services.metrics.prefix_changed(change);
        let has_found = change == PrefixChange::Tools && !found.is_empty();
        if change.is_requested() || has_found {
            // The client, a limit or a search for tools asked for it.
            let level = change.level();
            tracing::debug!(run.id = %run.run_id(), level, "parameters of a model request changed");
        } else {
            tracing::warn!(
                session.id = %run.session_id(),
                run.id = %run.run_id(),
                prefix.change = ?change,
                "prefix of a model request changed"
            );
        }
        self.prefix_changed.get_or_insert(change);
        hashes
    }

    /// Reports the repairs of the history that the next request contains.
    pub(super) fn report_repairs(&mut self, writer: &mut StepWriter<'_>) {
        for (kind, seq) in writer.transcript.take_repairs() {
            self.run.services.metrics.history_repaired(kind);
            tracing::warn!(
                session.id = %self.run.session_id(),
                repair.kind = kind.as_str(),
                message.seq = seq,
                "stored history repaired before it is sent"
            );
            self.repairs.push(HistoryRepair { kind, message_seq: seq });
        }
    }
}

/// The hash of the tools of a request that has these found tools besides the pinned ones.
fn with_found(pinned: Hash, found: &[String]) -> Hash {
    if found.is_empty() {
        return pinned;
    }
    let pinned = pinned.to_string();
    Hash::of(
        [pinned.as_str()].into_iter().chain(found.iter().flat_map(|name| [",", name.as_str()])),
    )
}
