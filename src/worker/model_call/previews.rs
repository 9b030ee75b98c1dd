//! Previews of a reply while it streams: coalesced, with the ids of the events that the reply becomes.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::parameters::ReplyIds;
use crate::bus::{Bus, PreviewStart};
use crate::domain::event::PreviewKind;
use crate::domain::ids::{RunId, SessionId};
use crate::model::Progress;

/// Time in which pieces of text are combined. The first piece is published at once.
const COALESCE: Duration = Duration::from_millis(30);

/// The event that a block becomes a part of.
#[derive(Debug)]
struct PreviewTarget {
    event_id: String,
    /// The index of the block within that event.
    index: usize,
}

/// Text that is not published yet.
#[derive(Debug)]
struct PendingText {
    /// The index of its block in the reply.
    block: usize,
    text: String,
}

/// The previews of one request.
#[derive(Debug)]
pub(super) struct Previews<'a> {
    bus: &'a Bus,
    session_id: SessionId,
    run_id: RunId,
    ids: ReplyIds,
    /// The target of each block, by its index in the reply.
    blocks: HashMap<usize, PreviewTarget>,
    texts: usize,
    thoughts: usize,
    pending: Option<PendingText>,
    flushed_at: Option<Instant>,
    /// The pieces of the reply that no reader may receive yet.
    held: Option<Vec<Progress>>,
}

impl<'a> Previews<'a> {
    pub(super) fn new(bus: &'a Bus, session_id: SessionId, run_id: RunId, ids: ReplyIds) -> Self {
        Self {
            bus,
            session_id,
            run_id,
            ids,
            blocks: HashMap::new(),
            texts: 0,
            thoughts: 0,
            pending: None,
            flushed_at: None,
            held: None,
        }
    }

    /// Holds all pieces back until [`Self::release`].
    pub(super) fn hold_if(&mut self, is_early: bool) {
        self.held = is_early.then(Vec::new);
    }

    /// Publishes the pieces that were held back.
    pub(super) fn release(&mut self) {
        for progress in self.held.take().into_iter().flatten() {
            self.push(progress);
        }
    }

    pub(super) fn push(&mut self, progress: Progress) {
        if let Some(held) = &mut self.held {
            held.push(progress);
            return;
        }
        match progress {
            Progress::Nothing => {}
            Progress::TextStarted { index: block } => {
                let (event_id, index) = (self.ids.message.to_string(), self.texts);
                self.texts += 1;
                self.open(block, PreviewTarget { event_id, index }, PreviewKind::Message, None);
            }
            Progress::ThinkingStarted { index: block } => {
                let (event_id, index) = (self.ids.thinking.to_string(), self.thoughts);
                self.thoughts += 1;
                self.open(block, PreviewTarget { event_id, index }, PreviewKind::Thinking, None);
            }
            Progress::ToolUseStarted { index: block, id, name } => {
                let target = PreviewTarget { event_id: id, index: 0 };
                self.open(block, target, PreviewKind::ToolUse, Some(name));
            }
            Progress::Delta { index, text } => self.delta(index, &text),
        }
    }

    /// The time at which pending text must be published; none if there is no such text.
    pub(super) fn flush_at(&self) -> Option<Instant> {
        self.pending.as_ref().and(self.flushed_at).map(|at| at + COALESCE)
    }

    pub(super) fn flush(&mut self) {
        if let Some(PendingText { block, text }) = self.pending.take()
            && let Some(PreviewTarget { event_id, index }) = self.blocks.get(&block)
        {
            self.bus.preview_delta(self.session_id, event_id, *index, &text);
            self.flushed_at = Some(Instant::now());
        }
    }

    fn open(
        &mut self,
        block: usize,
        target: PreviewTarget,
        kind: PreviewKind,
        name: Option<String>,
    ) {
        self.flush();
        // Later blocks of the same event continue the same preview.
        if target.index == 0 {
            let start = PreviewStart { event_id: target.event_id.clone(), kind, name };
            self.bus.preview_start(self.session_id, self.run_id, start);
        }
        self.blocks.insert(block, target);
    }

    fn delta(&mut self, block: usize, text: &str) {
        if self.pending.as_ref().is_some_and(|pending| pending.block != block) {
            self.flush();
        }
        let pending =
            self.pending.get_or_insert_with(|| PendingText { block, text: String::new() });
        pending.text.push_str(text);
        if self.flushed_at.is_none_or(|at| at.elapsed() >= COALESCE) {
            self.flush();
        }
    }
}
