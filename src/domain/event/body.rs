//! The bodies of events.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::domain::feedback::Rating;
use crate::domain::fork::ForkedFrom;
use crate::domain::history_repair::HistoryRepair;
use crate::domain::ids::{EventId, RunId, SessionId};
use crate::domain::limits::LimitKind;
use crate::domain::message::Content;
use crate::domain::model::Effort;
use crate::domain::outcome::RunError;
use crate::domain::output_schema::OutputError;
use crate::domain::permission::{Decision, Permission, PermissionMode};
use crate::domain::prefix::PrefixChange;
use crate::domain::sent_history::SentHistoryChange;
use crate::domain::source::Source;
use crate::domain::state_change::Todo;
use crate::domain::stop_reason::StopReason;
use crate::domain::tool_error::{Handling, ToolErrorType};
use crate::domain::usage::Usage;

/// The body of an event. The `type` on the wire is also the SSE event name.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(tag = "type")]
pub enum EventBody {
    /// The client's message was accepted. The event's id is the message's id.
    #[serde(rename = "user.message")]
    UserMessage {
        /// The message's blocks; images, documents and search results only by name.
        #[schema(value_type = Vec<Object>)]
        content: Content,
        /// The id of the message in the history; absent in events that an earlier version stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
        /// The run that the message retries.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        retry_of: Option<RunId>,
    },
    /// The client requested cancellation of the run.
    #[serde(rename = "user.interrupt")]
    UserInterrupt {},
    /// A caller decided on a call that waited for approval.
    #[serde(rename = "user.tool_confirmation")]
    UserToolConfirmation {
        /// The call.
        tool_use_id: String,
        /// The decision.
        result: Decision,
        /// The reason for a denial.
        #[serde(skip_serializing_if = "Option::is_none")]
        deny_message: Option<String>,
        /// The input that replaces the model's input.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        input: Option<Box<RawValue>>,
    },
    /// The client returned the result of a call that it ran.
    #[serde(rename = "user.custom_tool_result")]
    UserCustomToolResult {
        /// The call.
        custom_tool_use_id: String,
        /// The result's blocks; images, documents and search results only by name.
        #[schema(value_type = Vec<Object>)]
        content: Content,
        /// True if the call failed.
        is_error: bool,
        /// The type of the failure, if its text shows it.
        #[serde(skip_serializing_if = "Option::is_none")]
        error_type: Option<ToolErrorType>,
        /// The recommended handling of a failure.
        #[serde(skip_serializing_if = "Option::is_none")]
        handling: Option<Handling>,
    },
    /// A user gave feedback on a reply of the model, or removed it.
    #[serde(rename = "user.feedback")]
    UserFeedback {
        /// The id of the reply.
        message_id: String,
        /// The rating; absent if the feedback was removed.
        #[serde(skip_serializing_if = "Option::is_none")]
        rating: Option<Rating>,
        /// The text of the user.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<String>,
    },
    /// A text block of the model's answer.
    #[serde(rename = "agent.message")]
    AgentMessage {
        /// Text blocks.
        #[schema(value_type = Vec<Object>)]
        content: Content,
        /// True if the client stopped the run while the model wrote the text.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
        /// The id of the message in the history; absent in events that an earlier version stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    },
    /// A thinking block of the model; the text is a summary and may be empty.
    #[serde(rename = "agent.thinking")]
    AgentThinking {
        /// Text blocks.
        #[schema(value_type = Vec<Object>)]
        content: Content,
        /// The id of the message in the history; absent in events that an earlier version stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    },
    /// The model requests a tool call. The event's id is the model's `tool_use` id.
    #[serde(rename = "agent.tool_use")]
    AgentToolUse {
        /// The tool's name.
        name: String,
        /// The input as the model wrote it.
        #[schema(value_type = Object)]
        input: Box<RawValue>,
        /// The verdict of the permission policy.
        evaluated_permission: Permission,
        /// The id of the message in the history; absent in events that an earlier version stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    },
    /// The model requests a call of a tool that the client runs. The event's id is the `tool_use`
    /// id.
    #[serde(rename = "agent.custom_tool_use")]
    AgentCustomToolUse {
        /// The tool's name.
        name: String,
        /// The input as the model wrote it.
        #[schema(value_type = Object)]
        input: Box<RawValue>,
        /// The id of the message in the history; absent in events that an earlier version stored.
        #[serde(skip_serializing_if = "Option::is_none")]
        message_id: Option<String>,
    },
    /// A tool call returned a result or failed.
    #[serde(rename = "agent.tool_result")]
    AgentToolResult {
        /// The call that this result answers.
        tool_use_id: String,
        /// Text blocks.
        #[schema(value_type = Vec<Object>)]
        content: Content,
        /// True if the tool failed.
        is_error: bool,
        /// Duration of the call in milliseconds; 0 for a call that never ran.
        duration_ms: i64,
        /// The type of the failure, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        error_type: Option<ToolErrorType>,
        /// The recommended handling of a failure.
        #[serde(skip_serializing_if = "Option::is_none")]
        handling: Option<Handling>,
        /// The documents that the result is taken from, for people.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        sources: Vec<Source>,
    },
    /// The earlier messages were compacted: from here on the model reads a summary in their place.
    /// The stored history does not change.
    #[serde(rename = "agent.context_compacted")]
    ContextCompacted {
        /// Tokens of the request without the summary.
        tokens_before: i64,
        /// Tokens of the request with the summary; absent when the provider stopped after
        /// compaction.
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens_after: Option<i64>,
        /// The number of the last message that the summary replaces; absent when the provider
        /// compacted the conversation within a reply.
        #[serde(skip_serializing_if = "Option::is_none")]
        up_to: Option<i32>,
    },
    /// The model changed its todo list.
    #[serde(rename = "session.todos")]
    Todos {
        /// The complete list.
        todos: Vec<Todo>,
    },
    /// A tool server offers other tools than the session has pinned. The session keeps its pinned
    /// tools; a call of a removed tool is answered with an error. All three lists are empty once
    /// the server offers the pinned tools again.
    #[serde(rename = "session.tool_server_changed")]
    ToolServerChanged {
        /// The server's name.
        server: String,
        /// Tools that the server did not offer when the session was created.
        added: Vec<String>,
        /// Tools of the session that the server no longer offers.
        removed: Vec<String>,
        /// Tools of the session whose definitions have changed.
        changed: Vec<String>,
    },
    /// The session was created as a fork. It is the fork's first event; the source has no such
    /// event.
    #[serde(rename = "session.forked")]
    Forked {
        /// The point of the source session at which the fork begins.
        forked_from: ForkedFrom,
    },
    /// A sub-agent starts in its own session.
    #[serde(rename = "session.thread_created")]
    ThreadCreated {
        /// The session of the sub-agent.
        #[schema(value_type = String)]
        session_thread_id: SessionId,
        /// The run of the sub-agent.
        #[schema(value_type = String)]
        thread_run_id: RunId,
        /// The call that started it.
        tool_use_id: String,
        /// The name of the sub-agent.
        agent_name: String,
        /// A short description of the task.
        description: String,
    },
    /// An event in the session of a sub-agent while its parent waits for it. The sub-agent's
    /// thinking, user messages and single model requests appear only in the stream of its own
    /// session.
    #[serde(rename = "session.thread_event")]
    ThreadEvent {
        /// The session of the sub-agent.
        #[schema(value_type = String)]
        session_thread_id: SessionId,
        /// The call that started it.
        tool_use_id: String,
        /// The event as stored in that session, with its own `id` and `seq`.
        #[schema(value_type = Object)]
        event: Box<RawValue>,
    },
    /// The session changed; unchanged fields are absent.
    #[serde(rename = "session.updated")]
    Updated {
        /// The display name; null if it was removed.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        title: Option<Option<String>>,
        /// The complete metadata of the session.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        metadata: Option<Box<RawValue>>,
        /// The new permission mode.
        #[serde(skip_serializing_if = "Option::is_none")]
        permission_mode: Option<PermissionMode>,
        /// The new model.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The new effort; null for the default of the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Effort>)]
        effort: Option<Option<Effort>>,
        /// The new thinking setting; null for the default of the model.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        thinking: Option<Option<Box<RawValue>>>,
        /// True if the session is archived from now on, false if it is restored.
        #[serde(skip_serializing_if = "Option::is_none")]
        archived: Option<bool>,
        /// The new difference between the stored history and the history that the model receives.
        #[serde(skip_serializing_if = "Option::is_none")]
        sent_history: Option<SentHistoryChange>,
    },
    /// A worker claimed the run.
    #[serde(rename = "session.status_running")]
    StatusRunning {
        /// The number of times that workers have claimed this run, including this one.
        attempt: i32,
    },
    /// The model request failed and is sent again. Clients discard the previews of the run.
    #[serde(rename = "session.status_rescheduled")]
    StatusRescheduled {
        /// The run's failed requests in a row; 0 while the circuit breaker of the model is open.
        attempt: u32,
        /// Time of the next try.
        #[schema(value_type = String, format = DateTime)]
        #[serde(serialize_with = "crate::domain::rfc3339::time")]
        retry_at: Timestamp,
    },
    /// A run settled, or waits for the client. A run that waits emits further events later; the event
    /// is repeated after an answer while other calls of the run still wait. Other runs of the session
    /// may be active or queued.
    #[serde(rename = "session.status_idle")]
    StatusIdle {
        /// The reason.
        stop_reason: StopReason,
        /// The limit at which the service asked the model for a final answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        limited: Option<LimitKind>,
        /// The reason why the answer does not match the session's `output_schema`, if it does not.
        #[serde(skip_serializing_if = "Option::is_none")]
        output_error: Option<OutputError>,
    },
    /// An error occurred.
    #[serde(rename = "session.error")]
    Error {
        /// The error, for programs and for people.
        error: RunError,
    },
    /// The usage of the run, emitted when it settles.
    #[serde(rename = "session.usage")]
    Usage {
        /// Token usage of all requests of the run.
        usage: Usage,
        /// Cost in micro-dollars; absent when no price is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<i64>,
    },
    /// A request to the model starts.
    #[serde(rename = "span.model_request_start")]
    ModelRequestStart {
        /// The model's name.
        model: String,
        /// The call whose tool sends the request; absent for a request of the conversation.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_use_id: Option<String>,
    },
    /// A request to the model ended.
    #[serde(rename = "span.model_request_end")]
    ModelRequestEnd {
        /// The id of the matching start event.
        #[schema(value_type = String)]
        model_request_start_id: EventId,
        /// Token usage of the request.
        model_usage: Usage,
        /// True if `model_usage` includes HTTP requests that ended without a complete reply: of
        /// these, the counts that the model's server had not reported are estimated.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        usage_estimated: bool,
        /// The model's own stop reason.
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<String>,
        /// True if the request failed.
        is_error: bool,
        /// Time from sending the request to the last byte of the reply, in milliseconds.
        duration_ms: i64,
        /// The first difference from the previous request; absent if the request begins with it.
        #[serde(skip_serializing_if = "Option::is_none")]
        prefix_changed: Option<PrefixChange>,
        /// The repairs of the history, which the model would refuse otherwise, that are new here.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        history_repairs: Vec<HistoryRepair>,
        /// The parts of the request that the provider removed by the session's `context.edits`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<Object>>)]
        applied_edits: Option<Box<RawValue>>,
    },
}
