//! Events of a run to chunks.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::chunk::{Chunk, FinishReason, ToolKind};
use super::ids::message_id;
use super::previews::OpenParts;
use super::profile::Profile;
use crate::domain::event::{PreviewKind, STATUS_IDLE};
use crate::domain::ids::{RunId, SessionId};
use crate::domain::permission::{Decision, Permission};
use crate::domain::run::Run;
use crate::domain::source::Source;
use crate::domain::stop_reason::StopReason;
use crate::http::adapters::event::{RunEvent, RunPreview, SubAgent, joined};

/// The text of an error without a message of its own.
const FAILED: &str = "The run failed.";

/// The state of the mapping of one run.
#[derive(Debug)]
pub(super) struct Mapper {
    profile: Profile,
    run_id: RunId,
    session_id: SessionId,
    open: OpenParts,
    is_step_open: bool,
    /// The names of the tools of the calls so far.
    names: HashMap<String, String>,
    /// Calls that were denied, whose results the client does not get.
    denied: HashSet<String>,
    /// Calls whose results the client has, because it has sent them with the request.
    answered: HashSet<String>,
    /// The addresses of the sources so far.
    cited: HashSet<String>,
    sub_agents: HashMap<String, SubAgent>,
    /// True if the stream has reported that the run is queued or tries again.
    is_paused: bool,
    error: Option<String>,
    /// The reason for which the run is idle; none while it is active.
    stop_reason: Option<StopReason>,
}

impl Mapper {
    pub(super) fn new(profile: Profile, session_id: SessionId, run_id: RunId) -> Self {
        Self {
            profile,
            run_id,
            session_id,
            open: OpenParts::default(),
            is_step_open: false,
            names: HashMap::new(),
            denied: HashSet::new(),
            answered: HashSet::new(),
            cited: HashSet::new(),
            sub_agents: HashMap::new(),
            is_paused: false,
            error: None,
            stop_reason: None,
        }
    }

    /// A mapping that begins with the answers of a client: it knows the calls before them, and leaves
    /// out the results that the client has sent.
    pub(super) fn after_answers(self, run: &Run, answered: HashSet<String>) -> Self {
        let calls = run.log.calls.iter();
        let names = calls.map(|call| (call.tool_use_id.clone(), call.name.clone())).collect();
        Self { names, answered, ..self }
    }

    /// The first chunk.
    pub(super) fn start(&self) -> Chunk {
        let ids = json!({ "session_id": self.session_id, "run_id": self.run_id });
        Chunk::Start { message_id: message_id(self.run_id), message_metadata: ids }
    }

    /// Maps a preview.
    pub(super) fn preview(&mut self, preview: RunPreview, chunks: &mut Vec<Chunk>) {
        match preview {
            RunPreview::EventStart { event } => self.open.start(event, chunks),
            RunPreview::EventDelta { event_id, delta } => self.open.push(&event_id, delta, chunks),
            RunPreview::QueuePosition { position, length } => {
                self.is_paused = true;
                let place = json!({ "status": "queued", "position": position, "length": length });
                chunks.push(Chunk::status(place));
            }
            RunPreview::Other => {}
        }
    }

    /// Maps a stored event.
    pub(super) fn event(&mut self, event: RunEvent, chunks: &mut Vec<Chunk>) {
        match event {
            RunEvent::ModelRequest { tool_use_id: None } => self.step(chunks),
            RunEvent::Text { id, content } => {
                self.open.complete(&id, PreviewKind::Message, &joined(&content), chunks);
            }
            RunEvent::Thinking { id, content } => {
                self.open.complete(&id, PreviewKind::Thinking, &joined(&content), chunks);
            }
            RunEvent::ToolUse { id, name, input, evaluated_permission } => {
                self.call(&id, name, input, ToolKind::SERVER, chunks);
                if evaluated_permission == Permission::Ask && self.profile.has_approvals() {
                    let tool_call_id = id.clone();
                    chunks.push(Chunk::ToolApprovalRequest { approval_id: id, tool_call_id });
                }
            }
            RunEvent::ClientToolUse { id, name, input } => {
                self.call(&id, name, input, ToolKind::CLIENT, chunks);
            }
            RunEvent::Decided { tool_use_id, result, deny_message, input } => {
                self.decided(tool_use_id, result, (deny_message, input), chunks);
            }
            RunEvent::ToolResult { tool_use_id, content, is_error, sources } => {
                if !self.denied.contains(&tool_use_id) {
                    let text = joined(&content);
                    chunks.push(result(tool_use_id, text.into(), is_error, ToolKind::SERVER));
                }
                self.cite(sources, chunks);
            }
            RunEvent::ClientResult { tool_use_id, content, is_error } => {
                if !self.answered.contains(&tool_use_id) {
                    let output = client_output(joined(&content));
                    chunks.push(result(tool_use_id, output, is_error, ToolKind::CLIENT));
                }
            }
            RunEvent::Running {}
            | RunEvent::Rescheduled { .. }
            | RunEvent::Todos { .. }
            | RunEvent::SubAgent(_)
            | RunEvent::SubAgentEvent { .. }
            | RunEvent::Usage { .. }
            | RunEvent::Error { .. }
            | RunEvent::Idle { .. } => self.state(event, chunks),
            RunEvent::UserMessage { .. }
            | RunEvent::ModelRequest { tool_use_id: Some(_) }
            | RunEvent::ModelReply { .. }
            | RunEvent::Other => {}
        }
    }

    /// Maps an event that reports the state of the run or of the session.
    fn state(&mut self, event: RunEvent, chunks: &mut Vec<Chunk>) {
        match event {
            RunEvent::Running {} => self.running(chunks),
            RunEvent::Rescheduled { retry_at } => {
                self.open.discard(chunks);
                chunks.push(Chunk::status(json!({ "status": "retrying", "retry_at": retry_at })));
                self.is_paused = true;
            }
            RunEvent::Todos { todos } => {
                chunks.push(Chunk::Todos { id: "todos", data: json!({ "todos": todos }) });
            }
            RunEvent::SubAgent(agent) => {
                chunks.push(sub_agent(&agent, "running"));
                self.sub_agents.insert(agent.tool_use_id.clone(), agent);
            }
            RunEvent::SubAgentEvent { tool_use_id, event } if event.kind == STATUS_IDLE => {
                if let Some(agent) = self.sub_agents.remove(&tool_use_id) {
                    chunks.push(sub_agent(&agent, "finished"));
                }
            }
            RunEvent::Usage { usage, cost } => {
                let mut metadata = json!({ "usage": usage });
                if let (Some(cost), Some(metadata)) = (cost, metadata.as_object_mut()) {
                    metadata.insert("cost".to_owned(), cost.into());
                }
                chunks.push(Chunk::MessageMetadata { message_metadata: metadata });
            }
            RunEvent::Error { error } => self.error = Some(error.message),
            RunEvent::Idle { stop_reason } => self.stop_reason = Some(stop_reason),
            RunEvent::SubAgentEvent { .. }
            | RunEvent::ModelRequest { .. }
            | RunEvent::ModelReply { .. }
            | RunEvent::Text { .. }
            | RunEvent::Thinking { .. }
            | RunEvent::ToolUse { .. }
            | RunEvent::ClientToolUse { .. }
            | RunEvent::Decided { .. }
            | RunEvent::ToolResult { .. }
            | RunEvent::ClientResult { .. }
            | RunEvent::UserMessage { .. }
            | RunEvent::Other => {}
        }
    }

    /// The last chunks. A run that waited for the client may have continued since, so this is decided
    /// at the end of the stream.
    pub(super) fn end(&mut self) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        self.open.discard(&mut chunks);
        self.finish_step(&mut chunks);
        chunks.push(match &self.stop_reason {
            Some(StopReason::Cancelled) => Chunk::Abort,
            Some(reason) => match finish_reason(reason) {
                Some(finish_reason) => Chunk::Finish { finish_reason },
                None => self.failed(),
            },
            None if self.error.is_some() => self.failed(),
            // The run waits, and the event that reports it is older than the stream.
            None => Chunk::Finish { finish_reason: FinishReason::ToolCalls },
        });
        chunks
    }

    /// The last chunk of a stream whose session was deleted.
    pub(super) fn deleted(&mut self) {
        self.error = Some("The session was deleted.".to_owned());
        self.stop_reason = None;
    }

    fn failed(&self) -> Chunk {
        Chunk::Error { error_text: self.error.clone().unwrap_or_else(|| FAILED.to_owned()) }
    }

    fn running(&mut self, chunks: &mut Vec<Chunk>) {
        self.stop_reason = None;
        if std::mem::take(&mut self.is_paused) {
            chunks.push(Chunk::status(json!({ "status": "running" })));
        }
    }

    /// Sends sources that have an address, each once.
    fn cite(&mut self, sources: Vec<Source>, chunks: &mut Vec<Chunk>) {
        for Source { title, url } in sources {
            if let Some(url) = url.filter(|url| self.cited.insert(url.clone())) {
                chunks.push(Chunk::SourceUrl { source_id: url.clone(), url, title });
            }
        }
    }

    /// Starts a step. The one before is finished only now, so that it has the outputs of its calls.
    fn step(&mut self, chunks: &mut Vec<Chunk>) {
        self.running(chunks);
        self.finish_step(chunks);
        chunks.push(Chunk::StartStep);
        self.is_step_open = true;
    }

    fn finish_step(&mut self, chunks: &mut Vec<Chunk>) {
        if std::mem::take(&mut self.is_step_open) {
            chunks.push(Chunk::FinishStep);
        }
    }

    fn call(
        &mut self,
        id: &str,
        tool_name: String,
        input: Value,
        kind: ToolKind,
        chunks: &mut Vec<Chunk>,
    ) {
        self.open.take_call(id);
        self.names.insert(id.to_owned(), tool_name.clone());
        let tool_call_id = id.to_owned();
        chunks.push(Chunk::ToolInputAvailable { tool_call_id, tool_name, input, kind });
    }

    fn decided(
        &mut self,
        tool_call_id: String,
        result: Decision,
        (reason, input): (Option<String>, Option<Value>),
        chunks: &mut Vec<Chunk>,
    ) {
        let approved = result == Decision::Allow;
        if self.profile.has_approval_responses() {
            let approval_id = tool_call_id.clone();
            chunks.push(Chunk::ToolApprovalResponse { approval_id, approved, reason });
        }
        if !approved && self.profile.has_approvals() {
            self.denied.insert(tool_call_id.clone());
            chunks.push(Chunk::ToolOutputDenied { tool_call_id });
        } else if let Some(input) = input {
            let tool_name = self.names.get(&tool_call_id).cloned().unwrap_or_default();
            chunks.push(Chunk::ToolInputAvailable {
                tool_call_id,
                tool_name,
                input,
                kind: ToolKind::SERVER,
            });
        }
    }
}

fn result(tool_call_id: String, output: Value, is_error: bool, kind: ToolKind) -> Chunk {
    if is_error {
        let error_text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
        Chunk::ToolOutputError { tool_call_id, error_text, kind }
    } else {
        Chunk::ToolOutputAvailable { tool_call_id, output, kind }
    }
}

/// The output of a tool of the client. The service stores an object or array as its JSON text.
fn client_output(text: String) -> Value {
    let parsed = serde_json::from_str(&text).ok();
    parsed.filter(|value: &Value| value.is_object() || value.is_array()).unwrap_or(text.into())
}

fn sub_agent(agent: &SubAgent, status: &str) -> Chunk {
    let SubAgent { session_thread_id, tool_use_id, agent_name, description } = agent;
    let data = json!({
        "toolCallId": tool_use_id,
        "session_id": session_thread_id,
        "name": agent_name,
        "description": description,
        "status": status,
    });
    Chunk::SubAgent { id: tool_use_id.clone(), data }
}

/// The reason for the client; none if the run failed.
fn finish_reason(reason: &StopReason) -> Option<FinishReason> {
    match reason {
        StopReason::EndTurn | StopReason::StopSequence { .. } => Some(FinishReason::Stop),
        StopReason::MaxTokens | StopReason::ModelContextWindowExceeded => {
            Some(FinishReason::Length)
        }
        StopReason::Refusal(_) => Some(FinishReason::ContentFilter),
        StopReason::RequiresAction { .. } => Some(FinishReason::ToolCalls),
        StopReason::Unknown { .. } | StopReason::Cancelled => Some(FinishReason::Other),
        StopReason::RetriesExhausted | StopReason::Error | StopReason::BudgetExceeded { .. } => {
            None
        }
    }
}
