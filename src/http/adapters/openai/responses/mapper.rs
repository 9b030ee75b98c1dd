//! Events of a run to the events and the output of a response.
//!
//! The order of the events does not depend on the previews that a reader gets: one text is open at a
//! time, calls are complete when they begin, and what the model writes after a call comes after the call.
//! The numbers of the events are therefore the same in each stream of a response.

use std::collections::HashMap;

use serde_json::Value;

use super::event::ResponseEvent;
use super::item::{CallOutcome, OpenItem, ServerCall, client_call};
use crate::domain::event::PreviewKind;
use crate::domain::permission::{Decision, Permission};
use crate::domain::stop_reason::StopReason;
use crate::domain::usage::Usage;
use crate::http::adapters::event::{PreviewStart, RunEvent, RunPreview, joined};
use crate::http::adapters::openai::ending::{DELETED, Ending};

/// The state of the mapping of one response.
#[derive(Debug)]
pub(super) struct ResponseMapper {
    /// Events of the run up to this number belong to earlier responses.
    after: i64,
    open: Option<OpenItem>,
    /// Items that ended before their events came, by the ids of the events.
    closed: Vec<OpenItem>,
    /// True if the model has begun a call in this reply.
    has_call: bool,
    /// Calls of tools of the service without a result.
    calls: HashMap<String, ServerCall>,
    /// The items; none for one that the model has discarded.
    output: Vec<Option<Value>>,
    pub(super) usage: Usage,
    error: Option<String>,
    /// The reason for which the run is idle at the end of the response.
    stop_reason: Option<StopReason>,
    pub(super) is_complete: bool,
}

impl ResponseMapper {
    /// A mapping of the events of a run, from its first one, to the response after this one.
    pub(super) fn new(after: i64) -> Self {
        Self {
            after,
            open: None,
            closed: Vec::new(),
            has_call: false,
            calls: HashMap::new(),
            output: Vec::new(),
            usage: Usage::default(),
            error: None,
            stop_reason: None,
            is_complete: false,
        }
    }

    /// The items so far.
    pub(super) fn output(&self) -> Vec<Value> {
        self.output.iter().flatten().cloned().collect()
    }

    /// Maps a preview.
    pub(super) fn preview(&mut self, preview: RunPreview, events: &mut Vec<ResponseEvent>) {
        if self.is_complete {
            return;
        }
        match preview {
            RunPreview::EventStart { event } => self.start(&event, events),
            RunPreview::EventDelta { event_id, delta } => {
                let open = self.open.as_mut().filter(|open| open.event_id == event_id);
                let Some(open) = open else { return };
                let new = open.text.push(&delta.into_text());
                self.append(new, events);
            }
            RunPreview::QueuePosition { .. } | RunPreview::Other => {}
        }
    }

    fn start(&mut self, start: &PreviewStart, events: &mut Vec<ResponseEvent>) {
        if let Some(open) = self.open.as_mut().filter(|open| open.event_id == start.id) {
            open.text.restart();
            return;
        }
        if self.has_call || self.closed.iter().any(|it| it.event_id == start.id) {
            return;
        }
        // The model writes one block after the other.
        self.close(events);
        match start.kind() {
            PreviewKind::ToolUse => self.has_call = true,
            kind @ (PreviewKind::Message | PreviewKind::Thinking) => {
                self.open = Some(OpenItem::new(&start.id, kind));
            }
        }
    }

    /// Maps a stored event with its number.
    pub(super) fn event(&mut self, seq: i64, event: RunEvent, events: &mut Vec<ResponseEvent>) {
        if seq <= self.after {
            self.remember(event);
            return;
        }
        if self.is_complete {
            return;
        }
        match event {
            RunEvent::Text { id, content } => {
                self.complete(&id, PreviewKind::Message, &joined(&content), events);
            }
            RunEvent::Thinking { id, content } => {
                self.complete(&id, PreviewKind::Thinking, &joined(&content), events);
            }
            RunEvent::ToolUse { id, name, input, evaluated_permission } => {
                self.call(id, name, &input, evaluated_permission, events);
            }
            RunEvent::ClientToolUse { id, name, input } => {
                self.close(events);
                let index = self.output.len();
                let item = client_call(&id, &name, &input.to_string(), index, events);
                self.output.push(Some(item));
            }
            RunEvent::Decided { tool_use_id, result, input, .. } => {
                self.decided(&tool_use_id, result, input);
            }
            RunEvent::ToolResult { tool_use_id, content, is_error, .. } => {
                self.has_call = false;
                self.result(&tool_use_id, &joined(&content), is_error, events);
            }
            RunEvent::ModelRequest { tool_use_id: None } => self.has_call = false,
            RunEvent::ModelReply { model_usage } => {
                self.usage += model_usage;
                self.has_call = false;
                self.discard(events);
            }
            RunEvent::Rescheduled { .. } => {
                self.has_call = false;
                self.discard(events);
            }
            RunEvent::Error { error } => self.error = Some(error.message),
            RunEvent::Idle { stop_reason } => {
                self.stop_reason = Some(stop_reason);
                self.is_complete = true;
            }
            RunEvent::Running {}
            | RunEvent::UserMessage { .. }
            | RunEvent::ClientResult { .. }
            | RunEvent::Todos { .. }
            | RunEvent::SubAgent(_)
            | RunEvent::SubAgentEvent { .. }
            | RunEvent::Usage { .. }
            | RunEvent::ModelRequest { tool_use_id: Some(_) }
            | RunEvent::Other => {}
        }
    }

    /// Remembers the calls of earlier responses whose results belong to this one.
    fn remember(&mut self, event: RunEvent) {
        if let RunEvent::ToolUse { id, name, input, evaluated_permission } = event {
            let is_asked = evaluated_permission == Permission::Ask;
            let arguments = input.to_string();
            self.calls.insert(id, ServerCall { name, arguments, is_asked, index: None });
        } else if let RunEvent::Decided { tool_use_id, result, input, .. } = event {
            self.decided(&tool_use_id, result, input);
        } else if let RunEvent::ToolResult { tool_use_id, .. } = event {
            self.calls.remove(&tool_use_id);
        }
    }

    /// The last events, and the end.
    pub(super) fn end(&mut self, events: &mut Vec<ResponseEvent>) -> Ending {
        self.discard(events);
        let mut abandoned: Vec<(usize, String)> = self.calls.iter().filter_map(in_output).collect();
        abandoned.sort_unstable();
        for (index, id) in abandoned {
            if let Some(call) = self.calls.remove(&id) {
                let item = call.end(&id, index, CallOutcome::Abandoned, events);
                self.set(index, item);
            }
        }
        Ending::of(self.stop_reason.as_ref(), self.error.as_deref())
    }

    /// Returns true if the client stopped the run.
    pub(super) fn is_cancelled(&self) -> bool {
        matches!(self.stop_reason, Some(StopReason::Cancelled))
    }

    /// The end of a session that was deleted.
    pub(super) fn deleted(&mut self) {
        self.error = Some(DELETED.to_owned());
        self.stop_reason = None;
        self.is_complete = true;
    }

    fn call(
        &mut self,
        id: String,
        name: String,
        input: &Value,
        permission: Permission,
        events: &mut Vec<ResponseEvent>,
    ) {
        self.close(events);
        let index = self.output.len();
        let is_asked = permission == Permission::Ask;
        let mut call = ServerCall { name, arguments: input.to_string(), is_asked, index: None };
        if is_asked {
            let item = call.request(&id);
            events.push(ResponseEvent::added(index, &item));
            events.push(ResponseEvent::done(index, &item));
            self.output.push(Some(item));
        } else {
            call.index = Some(index);
            call.begin(&id, index, events);
            self.output.push(Some(call.item(&id, CallOutcome::Pending)));
        }
        self.calls.insert(id, call);
    }

    fn decided(&mut self, id: &str, result: Decision, input: Option<Value>) {
        let call = self.calls.get_mut(id).filter(|_| result == Decision::Allow);
        if let (Some(call), Some(input)) = (call, input) {
            call.arguments = input.to_string();
        }
    }

    fn result(&mut self, id: &str, text: &str, is_error: bool, events: &mut Vec<ResponseEvent>) {
        let Some(call) = self.calls.remove(id) else { return };
        self.close(events);
        let index = call.index.unwrap_or_else(|| {
            let index = self.output.len();
            call.begin(id, index, events);
            self.output.push(None);
            index
        });
        let outcome =
            if is_error { CallOutcome::Failed(text) } else { CallOutcome::Succeeded(text) };
        let item = call.end(id, index, outcome, events);
        self.set(index, item);
    }

    /// The complete text of an item. Sends the rest of it.
    fn complete(
        &mut self,
        id: &str,
        kind: PreviewKind,
        text: &str,
        events: &mut Vec<ResponseEvent>,
    ) {
        if let Some(position) = self.closed.iter().position(|it| it.event_id == id) {
            let closed = self.closed.swap_remove(position);
            if let Some(index) = closed.index {
                self.set(index, closed.item(text, "completed"));
            }
            return;
        }
        let mut next = OpenItem::new(id, kind);
        if let Some(open) = self.open.as_ref().filter(|open| open.event_id == id) {
            if let Some(rest) = open.text.rest(text).map(str::to_owned) {
                self.append(rest, events);
                self.finish(text, "completed", events);
                return;
            }
            // The client cannot replace the text that it has, so it gets a new item.
            next.copy = Some(2);
            self.discard(events);
        }
        self.close(events);
        self.open = Some(next);
        self.append(text.to_owned(), events);
        self.finish(text, "completed", events);
    }

    /// Appends text to the open item, which begins in the client with its first text.
    fn append(&mut self, new: String, events: &mut Vec<ResponseEvent>) {
        let Some(open) = self.open.as_mut().filter(|_| !new.is_empty()) else { return };
        let index = *open.index.get_or_insert_with(|| {
            let index = self.output.len();
            self.output.push(None);
            index
        });
        if !self.output.get(index).is_some_and(Option::is_some) {
            open.begin(index, events);
            self.set(index, Value::Null);
        }
        if let Some(open) = &self.open {
            events.push(open.delta(index, new));
        }
    }

    /// Ends the open item, whose event has not come yet, with the text that the client has.
    fn close(&mut self, events: &mut Vec<ResponseEvent>) {
        let Some(open) = &self.open else { return };
        let text = open.text.text().to_owned();
        if let Some(open) = self.finish(&text, "completed", events) {
            self.closed.push(open);
        }
    }

    /// Ends texts that no event completes: the reply of the model was discarded.
    fn discard(&mut self, events: &mut Vec<ResponseEvent>) {
        if let Some(open) = &self.open {
            let text = open.text.text().to_owned();
            let discarded = self.finish(&text, "incomplete", events);
            self.closed.extend(discarded);
        }
        for index in self.closed.drain(..).filter_map(|closed| closed.index) {
            if let Some(item) = self.output.get_mut(index) {
                *item = None;
            }
        }
    }

    /// Ends the open item. Returns it if the client has a part of it.
    fn finish(
        &mut self,
        text: &str,
        status: &str,
        events: &mut Vec<ResponseEvent>,
    ) -> Option<OpenItem> {
        let open = self.open.take()?;
        let index = open.index?;
        let item = open.end(index, (text, status), events);
        self.set(index, item);
        Some(open)
    }

    fn set(&mut self, index: usize, item: Value) {
        if let Some(place) = self.output.get_mut(index) {
            *place = Some(item);
        }
    }
}

fn in_output((id, call): (&String, &ServerCall)) -> Option<(usize, String)> {
    Some((call.index?, id.clone()))
}
