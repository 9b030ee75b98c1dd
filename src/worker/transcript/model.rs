//! The model that a transcript is sent to, and the model that has answered it last.

use super::{HeadHashes, Transcript};
use crate::domain::prefix::{PrefixChange, PrefixHashes};

impl Transcript {
    /// Records a request with all messages. Returns the hashes of its prefix and the first difference
    /// from the prefix of the last request.
    pub(in crate::worker) fn send(
        &mut self,
        head: HeadHashes,
        model: &str,
    ) -> (PrefixHashes, Option<PrefixChange>) {
        // The last request may have been sent by another process.
        let is_other = !self.prefix.has_request() && self.is_answered_by_another(model);
        let (hashes, change) = self.prefix.send(head);
        (hashes, change.or(is_other.then_some(PrefixChange::Model)))
    }

    /// True if another model than this one was asked for the newest message of the assistant.
    pub(in crate::worker) fn is_answered_by_another(&self, model: &str) -> bool {
        self.answered_by.as_deref().is_some_and(|other| other != model)
    }

    /// Notes the model that was asked for the newest message of the assistant.
    pub(in crate::worker) fn set_answered_by(&mut self, model: &str) {
        if self.answered_by.as_deref() != Some(model) {
            self.answered_by = Some(model.to_owned());
        }
    }
}
