//! The parts of a transcript that the model's server may refuse, and the changes that leave them out.

use std::collections::BTreeSet;

use super::{Transcript, sent};
use crate::agent::sent_view;
use crate::domain::sent_history::{BlockPosition, SentHistoryChange};

impl Transcript {
    /// The JSON of the blocks at these positions of the request that a text can replace, each of
    /// them once.
    pub(in crate::worker) fn replaceable_blocks(
        &self,
        positions: &[BlockPosition],
    ) -> BTreeSet<String> {
        let messages = format!("[{}]", self.text);
        let messages = sent(&messages);
        let block = |position: &BlockPosition| {
            let content = messages.get(position.message)?.content.get();
            sent_view::replaceable_block(content, *position).map(str::to_owned)
        };
        positions.iter().filter_map(block).collect()
    }

    /// The JSON of the first images in results of tools, up to this number, each of them once.
    pub(in crate::worker) fn oldest_tool_images(&self, count: usize) -> BTreeSet<String> {
        let messages = format!("[{}]", self.text);
        let messages = sent(&messages);
        let images = messages.iter().flat_map(|sent| sent_view::tool_images(sent.content.get()));
        images.take(count).map(str::to_owned).collect()
    }

    /// The change that leaves out all thinking, if any is sent.
    pub(in crate::worker) fn without_thinking(&self) -> Option<SentHistoryChange> {
        let change = SentHistoryChange::ThinkingDropped { up_to: self.seq };
        let is_there = self.text.contains(r#"thinking""#) && !self.view.changes.contains(&change);
        is_there.then_some(change)
    }

    /// The change that sends the whole history again, if a summary replaces a part of it.
    pub(in crate::worker) fn without_summary(&self) -> Option<SentHistoryChange> {
        let compaction = self.view.compaction.as_ref()?;
        Some(SentHistoryChange::SummaryDropped { up_to: compaction.up_to })
    }
}
