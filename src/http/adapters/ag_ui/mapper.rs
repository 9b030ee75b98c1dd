//! Events of a run to events of the protocol.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::event::{AgUiEvent, interrupt, result_id};
use crate::domain::event::PreviewKind;
use crate::domain::permission::{Awaits, Permission};
use crate::domain::run::Run;
use crate::domain::stop_reason::StopReason;
use crate::http::adapters::event::{RunEvent, RunPreview, joined};
use crate::http::adapters::sent_text::SentText;

/// The text of an error without a message of its own.
const FAILED: &str = "The run failed.";
const VERSION: &str = "1.0";

/// The ids of a run that its client has made.
#[derive(Debug, Clone)]
pub(super) struct RunIds {
    pub(super) thread_id: String,
    pub(super) run_id: String,
    /// True for version 1.0, which has outcomes and usage.
    pub(super) has_outcomes: bool,
}

/// A text that is being streamed.
#[derive(Debug)]
struct OpenText {
    id: String,
    kind: PreviewKind,
    text: SentText,
}

/// The state of the mapping of one run.
#[derive(Debug)]
pub(super) struct Mapper {
    ids: RunIds,
    open: Vec<OpenText>,
    steps: usize,
    step: Option<String>,
    /// The last text of the step, to which its calls belong.
    parent: Option<String>,
    /// The names of calls that need an approval.
    asked: BTreeMap<String, String>,
    usage: Option<Value>,
    error: Option<String>,
    /// The reason for which the run is idle; none while it is active.
    stop_reason: Option<StopReason>,
}

impl Mapper {
    pub(super) fn new(ids: RunIds, run: Option<&Run>) -> Self {
        let pending = run.map(|run| run.pending.as_slice()).unwrap_or_default();
        let asked = pending.iter().filter(|call| call.awaits == Awaits::Approval);
        let asked = asked.map(|call| (call.tool_use_id.clone(), call.name.clone()));
        Self {
            ids,
            open: Vec::new(),
            steps: 0,
            step: None,
            parent: None,
            asked: asked.collect(),
            usage: None,
            error: None,
            stop_reason: None,
        }
    }

    /// The first event.
    pub(super) fn start(&self) -> AgUiEvent {
        let RunIds { thread_id, run_id, has_outcomes } = self.ids.clone();
        let protocol_version = has_outcomes.then_some(VERSION);
        AgUiEvent::RunStarted { thread_id, run_id, protocol_version }
    }

    /// Maps a preview.
    pub(super) fn preview(&mut self, preview: RunPreview, events: &mut Vec<AgUiEvent>) {
        match preview {
            RunPreview::EventStart { event } if event.kind() != PreviewKind::ToolUse => {
                if let Some(open) = self.open.iter_mut().find(|open| open.id == event.id) {
                    open.text.restart();
                } else {
                    let kind = event.kind();
                    self.open.push(OpenText { id: event.id, kind, text: SentText::default() });
                }
            }
            RunPreview::EventDelta { event_id, delta } => {
                let open = self.open.iter_mut().find(|open| open.id == event_id);
                let Some(open) = open else { return };
                let is_first = open.text.is_empty();
                let new = open.text.push(&delta.into_text());
                open.send(is_first, new, events);
            }
            RunPreview::EventStart { .. }
            | RunPreview::QueuePosition { .. }
            | RunPreview::Other => {}
        }
    }

    /// Maps a stored event.
    pub(super) fn event(&mut self, event: RunEvent, events: &mut Vec<AgUiEvent>) {
        match event {
            RunEvent::ModelRequest { tool_use_id: None } => self.start_step(events),
            RunEvent::Text { id, content } => {
                self.complete(&id, PreviewKind::Message, &joined(&content), events);
                self.parent = Some(id);
            }
            RunEvent::Thinking { id, content } => {
                self.complete(&id, PreviewKind::Thinking, &joined(&content), events);
            }
            RunEvent::ToolUse { id, name, input, evaluated_permission } => {
                if evaluated_permission == Permission::Ask {
                    self.asked.insert(id.clone(), name.clone());
                }
                self.call(id, name, &input, events);
            }
            RunEvent::ClientToolUse { id, name, input } => self.call(id, name, &input, events),
            RunEvent::ToolResult { tool_use_id, content, is_error, .. } => {
                events.push(AgUiEvent::ToolCallResult {
                    message_id: result_id(&tool_use_id),
                    tool_call_id: tool_use_id,
                    content: joined(&content),
                    role: "tool",
                    metadata: is_error.then(|| json!({ "is_error": true })),
                });
            }
            RunEvent::Todos { todos } => {
                events.push(AgUiEvent::StateSnapshot { snapshot: json!({ "todos": todos }) });
            }
            RunEvent::Rescheduled { .. } => self.close(events),
            RunEvent::Running {} => self.stop_reason = None,
            RunEvent::Usage { usage, .. } => self.usage = Some(token_usage(&usage)),
            RunEvent::Error { error } => self.error = Some(error.message),
            RunEvent::Idle { stop_reason } => self.stop_reason = Some(stop_reason),
            // The client that sent a result has it already.
            RunEvent::ClientResult { .. }
            | RunEvent::UserMessage { .. }
            | RunEvent::Decided { .. }
            | RunEvent::SubAgent(_)
            | RunEvent::SubAgentEvent { .. }
            | RunEvent::ModelRequest { tool_use_id: Some(_) }
            | RunEvent::ModelReply { .. }
            | RunEvent::Other => {}
        }
    }

    /// The last events.
    pub(super) fn end(&mut self) -> Vec<AgUiEvent> {
        let mut events = Vec::new();
        self.close(&mut events);
        self.finish_step(&mut events);
        let outcome = match self.stop_reason.take() {
            Some(StopReason::RequiresAction { event_ids }) => self.waiting(&event_ids),
            Some(StopReason::Cancelled) => json!({ "type": "cancelled" }),
            Some(
                StopReason::RetriesExhausted
                | StopReason::Error
                | StopReason::BudgetExceeded { .. },
            ) => {
                events.push(self.failed());
                return events;
            }
            None if self.error.is_some() => {
                events.push(self.failed());
                return events;
            }
            // The run waits, and the event that reports it is older than the stream.
            None if !self.asked.is_empty() => {
                let asked: Vec<String> = self.asked.keys().cloned().collect();
                self.waiting(&asked)
            }
            Some(_) | None => json!({ "type": "success" }),
        };
        events.push(self.finished(outcome));
        events
    }

    /// The last event, with this outcome.
    pub(super) fn finished(&self, outcome: Value) -> AgUiEvent {
        let RunIds { thread_id, run_id, has_outcomes } = self.ids.clone();
        let usage = self.usage.clone().filter(|_| has_outcomes).map(|usage| json!([usage]));
        let outcome = has_outcomes.then_some(outcome);
        AgUiEvent::RunFinished { thread_id, run_id, outcome, usage }
    }

    /// The outcome of a run that waits for these calls: interrupts for approvals, or else the calls of
    /// the client.
    pub(super) fn waiting(&self, calls: &[String]) -> Value {
        let interrupts = calls.iter().filter_map(|id| {
            let name = self.asked.get(id)?;
            Some(interrupt(id, name))
        });
        let interrupts: Vec<Value> = interrupts.collect();
        if interrupts.is_empty() {
            json!({ "type": "success", "pendingToolCallIds": calls })
        } else {
            json!({ "type": "interrupt", "interrupts": interrupts })
        }
    }

    /// The session was deleted.
    pub(super) fn deleted(&mut self) {
        self.error = Some("The session was deleted.".to_owned());
        self.stop_reason = None;
    }

    fn failed(&self) -> AgUiEvent {
        AgUiEvent::RunError { message: self.error.clone().unwrap_or_else(|| FAILED.to_owned()) }
    }

    /// Starts a step. The one before is finished only now, so that it has the results of its calls.
    fn start_step(&mut self, events: &mut Vec<AgUiEvent>) {
        self.stop_reason = None;
        self.finish_step(events);
        self.steps += 1;
        self.parent = None;
        let step_name = format!("model-{}", self.steps);
        self.step = Some(step_name.clone());
        events.push(AgUiEvent::StepStarted { step_name });
    }

    fn finish_step(&mut self, events: &mut Vec<AgUiEvent>) {
        events.extend(self.step.take().map(|step_name| AgUiEvent::StepFinished { step_name }));
    }

    fn call(&self, id: String, name: String, input: &Value, events: &mut Vec<AgUiEvent>) {
        events.push(AgUiEvent::ToolCallStart {
            tool_call_id: id.clone(),
            tool_call_name: name,
            parent_message_id: self.parent.clone(),
        });
        let delta = input.to_string();
        events.push(AgUiEvent::ToolCallArgs { tool_call_id: id.clone(), delta });
        events.push(AgUiEvent::ToolCallEnd { tool_call_id: id });
    }

    /// The complete text of a message. Sends the rest of it.
    fn complete(&mut self, id: &str, kind: PreviewKind, text: &str, events: &mut Vec<AgUiEvent>) {
        let position = self.open.iter().position(|open| open.id == id);
        let open = position.map(|position| self.open.remove(position));
        let new = || OpenText { id: id.to_owned(), kind, text: SentText::default() };
        let open = open.unwrap_or_else(new);
        let is_first = open.text.is_empty();
        // A text that differs from its preview cannot be replaced: the client keeps the preview.
        let rest = open.text.rest(text).unwrap_or_default().to_owned();
        let has_text = !is_first || !rest.is_empty();
        open.send(is_first, rest, events);
        if has_text {
            open.end(events);
        }
    }

    /// Closes the texts that no event completes.
    fn close(&mut self, events: &mut Vec<AgUiEvent>) {
        for open in self.open.drain(..).filter(|open| !open.text.is_empty()) {
            open.end(events);
        }
    }
}

impl OpenText {
    /// Sends text, after the start of the message if it is the first one.
    fn send(&self, is_first: bool, delta: String, events: &mut Vec<AgUiEvent>) {
        if delta.is_empty() {
            return;
        }
        let message_id = self.id.clone();
        let id = || message_id.clone();
        if self.kind == PreviewKind::Thinking {
            if is_first {
                events.push(AgUiEvent::ReasoningStart { message_id: id() });
                let role = "reasoning";
                events.push(AgUiEvent::ReasoningMessageStart { message_id: id(), role });
            }
            events.push(AgUiEvent::ReasoningMessageContent { message_id, delta });
            return;
        }
        if is_first {
            events.push(AgUiEvent::TextMessageStart { message_id: id(), role: "assistant" });
        }
        events.push(AgUiEvent::TextMessageContent { message_id, delta });
    }

    fn end(&self, events: &mut Vec<AgUiEvent>) {
        let message_id = self.id.clone();
        if self.kind == PreviewKind::Thinking {
            events.push(AgUiEvent::ReasoningMessageEnd { message_id: message_id.clone() });
            events.push(AgUiEvent::ReasoningEnd { message_id });
        } else {
            events.push(AgUiEvent::TextMessageEnd { message_id });
        }
    }
}

/// The usage of a `session.usage` event. The protocol counts cached tokens as input.
fn token_usage(usage: &Value) -> Value {
    let count = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
    let (read, written) = (count("cache_read_input_tokens"), count("cache_creation_input_tokens"));
    let (input, output) = (count("input_tokens") + read + written, count("output_tokens"));
    json!({
        "inputTokens": input,
        "outputTokens": output,
        "totalTokens": input + output,
        "cachedInputTokens": read,
        "cacheWriteInputTokens": written,
    })
}
