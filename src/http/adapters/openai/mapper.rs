//! Events of a run to pieces of a completion.

use std::collections::HashMap;

use super::completion::{CalledFunction, CompletionUsage, FinishReason, ToolCall};
use super::ending::{DELETED, Ending};
use crate::domain::event::PreviewKind;
use crate::domain::ids::SessionId;
use crate::domain::permission::Permission;
use crate::domain::stop_reason::StopReason;
use crate::http::adapters::event::{RunEvent, RunPreview, joined};
use crate::http::adapters::sent_text::SentText;

/// The text between two messages of an answer.
const SEPARATOR: &str = "\n\n";

/// A piece of a completion.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Call(ToolCall),
    /// The name of a tool that the service runs.
    Progress(String),
}

/// The state of the mapping of one run.
#[derive(Debug)]
pub(super) struct Mapper {
    session_id: SessionId,
    /// Texts that are being streamed, by the ids of their events.
    open: Vec<(String, SentText)>,
    has_text: bool,
    /// The names of calls that need an approval.
    asked: HashMap<String, String>,
    pub(super) usage: CompletionUsage,
    error: Option<String>,
    /// The reason for which the run is idle; none while it is active.
    stop_reason: Option<StopReason>,
}

impl Mapper {
    pub(super) fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            open: Vec::new(),
            has_text: false,
            asked: HashMap::new(),
            usage: CompletionUsage::default(),
            error: None,
            stop_reason: None,
        }
    }

    /// Maps a preview.
    pub(super) fn preview(&mut self, preview: RunPreview, pieces: &mut Vec<Piece>) {
        match preview {
            RunPreview::EventStart { event } if event.kind() == PreviewKind::Message => {
                match self.open.iter_mut().find(|(id, _)| *id == event.id) {
                    Some((_, text)) => text.restart(),
                    None => self.open.push((event.id, SentText::default())),
                }
            }
            RunPreview::EventDelta { event_id, delta } => {
                let open = self.open.iter_mut().find(|(id, _)| *id == event_id);
                let Some((_, text)) = open else { return };
                let is_first = text.is_empty();
                let new = text.push(&delta.into_text());
                self.text(is_first, new, pieces);
            }
            RunPreview::EventStart { .. }
            | RunPreview::QueuePosition { .. }
            | RunPreview::Other => {}
        }
    }

    /// Maps a stored event.
    pub(super) fn event(&mut self, event: RunEvent, pieces: &mut Vec<Piece>) {
        match event {
            RunEvent::Text { id, content } => self.complete(&id, joined(&content), pieces),
            RunEvent::ToolUse { id, name, evaluated_permission, .. } => {
                pieces.push(Piece::Progress(name.clone()));
                if evaluated_permission == Permission::Ask {
                    self.asked.insert(id, name);
                }
            }
            RunEvent::ClientToolUse { id, name, input } => {
                let function = CalledFunction { name, arguments: input.to_string() };
                pieces.push(Piece::Call(ToolCall { id, r#type: "function", function }));
            }
            RunEvent::Rescheduled { .. } => self.open.clear(),
            RunEvent::Running {} => self.stop_reason = None,
            RunEvent::Usage { usage, .. } => self.usage = CompletionUsage::of(&usage),
            RunEvent::Error { error } => self.error = Some(error.message),
            RunEvent::Idle { stop_reason } => self.stop_reason = Some(stop_reason),
            RunEvent::UserMessage { .. }
            | RunEvent::Decided { .. }
            | RunEvent::ClientResult { .. }
            | RunEvent::Thinking { .. }
            | RunEvent::ToolResult { .. }
            | RunEvent::Todos { .. }
            | RunEvent::SubAgent(_)
            | RunEvent::SubAgentEvent { .. }
            | RunEvent::ModelRequest { .. }
            | RunEvent::ModelReply { .. }
            | RunEvent::Other => {}
        }
    }

    /// The last pieces, and the end.
    pub(super) fn end(&mut self, pieces: &mut Vec<Piece>) -> Ending {
        if let Some(StopReason::RequiresAction { event_ids }) = self.stop_reason.clone() {
            let (approvals, calls): (Vec<_>, Vec<_>) =
                event_ids.iter().partition(|id| self.asked.contains_key(*id));
            let notice = self.notice(&approvals);
            self.text(true, notice, pieces);
            if calls.is_empty() {
                return Ending::Finished(FinishReason::Stop);
            }
        }
        Ending::of(self.stop_reason.as_ref(), self.error.as_deref())
    }

    /// The end of a session that was deleted.
    pub(super) fn deleted(&mut self) {
        self.error = Some(DELETED.to_owned());
        self.stop_reason = None;
    }

    /// A text about calls that wait for an approval, which the protocol does not know.
    fn notice(&self, calls: &[&String]) -> String {
        let line = |id: &&String| {
            let name = self.asked.get(*id).map_or("A call", String::as_str);
            let session = self.session_id;
            format!("{name} waits for an approval: POST /v1/sessions/{session}/approvals/{id}")
        };
        calls.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// The complete text of a message. Sends the rest of it.
    fn complete(&mut self, id: &str, text: String, pieces: &mut Vec<Piece>) {
        let position = self.open.iter().position(|(open, _)| open == id);
        let sent = position.map(|position| self.open.remove(position).1).unwrap_or_default();
        match sent.rest(&text).map(str::to_owned) {
            Some(rest) => self.text(sent.is_empty(), rest, pieces),
            // The client cannot replace the text that it has.
            None => self.text(true, text, pieces),
        }
    }

    fn text(&mut self, is_first: bool, text: String, pieces: &mut Vec<Piece>) {
        if text.is_empty() {
            return;
        }
        let is_next = is_first && std::mem::replace(&mut self.has_text, true);
        pieces.push(Piece::Text(if is_next { format!("{SEPARATOR}{text}") } else { text }));
    }
}
