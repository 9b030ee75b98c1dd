//! Previews of a reply while it streams: coalesced, and under the ids of the events to come.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::bus::{Bus, PreviewStart};
use crate::domain::event::PreviewKind;
use crate::domain::ids::{EventId, RunId, SessionId};
use crate::model::Progress;

/// The first piece of text is told at once, later ones together.
const COALESCE: Duration = Duration::from_millis(30);

/// Ids of the events that a reply will become.
#[derive(Debug, Clone, Copy)]
pub(in crate::worker) struct ReplyIds {
    pub(in crate::worker) message: EventId,
    pub(in crate::worker) thinking: EventId,
}

impl ReplyIds {
    pub(in crate::worker) fn new() -> Self {
        Self { message: EventId::new(), thinking: EventId::new() }
    }
}

/// The previews of one request.
#[derive(Debug)]
pub(in crate::worker) struct Previews<'a> {
    bus: &'a Bus,
    session_id: SessionId,
    run_id: RunId,
    ids: ReplyIds,
    /// Block by its place in the reply: the event it belongs to, and its place in that event.
    blocks: HashMap<usize, (String, usize)>,
    texts: usize,
    thoughts: usize,
    pending: Option<(usize, String)>,
    flushed_at: Option<Instant>,
}

impl<'a> Previews<'a> {
    pub(in crate::worker) fn new(
        bus: &'a Bus,
        session_id: SessionId,
        run_id: RunId,
        ids: ReplyIds,
    ) -> Self {
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
        }
    }

    pub(in crate::worker) fn push(&mut self, progress: Progress) {
        match progress {
            Progress::Nothing => {}
            Progress::TextStarted { index } => {
                let place = self.texts;
                self.texts += 1;
                self.open(index, place, self.ids.message.to_string(), PreviewKind::Message, None);
            }
            Progress::ThinkingStarted { index } => {
                let place = self.thoughts;
                self.thoughts += 1;
                let id = self.ids.thinking.to_string();
                self.open(index, place, id, PreviewKind::Thinking, None);
            }
            Progress::ToolUseStarted { index, id, name } => {
                self.open(index, 0, id, PreviewKind::ToolUse, Some(name));
            }
            Progress::Delta { index, text } => self.delta(index, &text),
        }
    }

    /// When text that waits must be told; none when nothing waits.
    pub(in crate::worker) fn flush_at(&self) -> Option<Instant> {
        self.pending.as_ref().and(self.flushed_at).map(|at| at + COALESCE)
    }

    pub(in crate::worker) fn flush(&mut self) {
        if let Some((index, text)) = self.pending.take()
            && let Some((event_id, place)) = self.blocks.get(&index)
        {
            self.bus.preview_delta(self.session_id, event_id, *place, &text);
            self.flushed_at = Some(Instant::now());
        }
    }

    fn open(
        &mut self,
        index: usize,
        place: usize,
        event_id: String,
        kind: PreviewKind,
        name: Option<String>,
    ) {
        self.flush();
        self.blocks.insert(index, (event_id.clone(), place));
        // Later blocks of the same event go on in the same preview.
        if place == 0 {
            let start = PreviewStart { event_id, kind, name };
            self.bus.preview_start(self.session_id, self.run_id, start);
        }
    }

    fn delta(&mut self, index: usize, text: &str) {
        if self.pending.as_ref().is_some_and(|(pending, _)| *pending != index) {
            self.flush();
        }
        self.pending.get_or_insert_with(|| (index, String::new())).1.push_str(text);
        if self.flushed_at.is_none_or(|at| at.elapsed() >= COALESCE) {
            self.flush();
        }
    }
}
