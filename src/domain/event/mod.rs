//! Events: numbered facts of a session, and previews of facts to come.

mod farewell;
mod frame;
mod preview;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use super::context::Compaction;
use super::fork::ForkedFrom;
use super::ids::{EventId, RunId, SessionId};
use super::message::Content;
use super::note::Todo;
use super::output_schema::OutputError;
use super::permission::{Decision, Permission, PermissionMode};
use super::prefix::PrefixChange;
use super::run::{LimitKind, RunError, StopReason};
use super::sent::SentChange;
use super::tool_error::{Handling, ToolErrorType};
use super::usage::Usage;

pub use farewell::Farewell;
pub use frame::{Frame, Stamp};
pub use preview::{Preview, PreviewDelta, PreviewKind, PreviewText, PreviewedEvent};

/// What happened. The `type` on the wire is also the SSE event name.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
#[serde(tag = "type")]
pub enum EventBody {
    /// The client's message was accepted. The event's id is the message's id.
    #[serde(rename = "user.message")]
    UserMessage {
        /// The message's blocks; images, documents and search results only by their names.
        #[schema(value_type = Vec<Object>)]
        content: Content,
    },
    /// The client asked for the run to be cancelled.
    #[serde(rename = "user.interrupt")]
    UserInterrupt {},
    /// Somebody decided on a call.
    #[serde(rename = "user.tool_confirmation")]
    UserToolConfirmation {
        /// The call.
        tool_use_id: String,
        /// What was decided.
        result: Decision,
        /// Why it was denied.
        #[serde(skip_serializing_if = "Option::is_none")]
        deny_message: Option<String>,
        /// What runs in place of the model's input.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        input: Option<Box<RawValue>>,
    },
    /// The client gave the result of a call that it ran.
    #[serde(rename = "user.custom_tool_result")]
    UserCustomToolResult {
        /// The call.
        custom_tool_use_id: String,
        /// The result's blocks; images, documents and search results only by their names.
        #[schema(value_type = Vec<Object>)]
        content: Content,
        /// Whether the call failed.
        is_error: bool,
    },
    /// The model said something to the reader.
    #[serde(rename = "agent.message")]
    AgentMessage {
        /// Text blocks.
        #[schema(value_type = Vec<Object>)]
        content: Content,
    },
    /// The model thought; the text is a summary and may be empty.
    #[serde(rename = "agent.thinking")]
    AgentThinking {
        /// Text blocks.
        #[schema(value_type = Vec<Object>)]
        content: Content,
    },
    /// The model asks for a tool. The event's id is the model's `tool_use` id.
    #[serde(rename = "agent.tool_use")]
    AgentToolUse {
        /// The tool's name.
        name: String,
        /// The input as the model wrote it.
        #[schema(value_type = Object)]
        input: Box<RawValue>,
        /// What the permission policy said.
        evaluated_permission: Permission,
    },
    /// The model asks for a tool that the client runs. The event's id is the `tool_use` id.
    #[serde(rename = "agent.custom_tool_use")]
    AgentCustomToolUse {
        /// The tool's name.
        name: String,
        /// The input as the model wrote it.
        #[schema(value_type = Object)]
        input: Box<RawValue>,
    },
    /// A tool answered, or could not.
    #[serde(rename = "agent.tool_result")]
    AgentToolResult {
        /// The call that it answers.
        tool_use_id: String,
        /// Text blocks.
        #[schema(value_type = Vec<Object>)]
        content: Content,
        /// Whether the tool failed.
        is_error: bool,
        /// How long the call took; 0 for a call that never ran.
        duration_ms: i64,
        /// Of what type the failure is, if it has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        error_type: Option<ToolErrorType>,
        /// What there is to do about a failure.
        #[serde(skip_serializing_if = "Option::is_none")]
        handling: Option<Handling>,
    },
    /// What stood before was summed up: from here on the model reads a summary in its place. The
    /// history itself stays whole.
    #[serde(rename = "agent.context_compacted")]
    ContextCompacted {
        /// Tokens of the request without the summary.
        tokens_before: i64,
        /// Tokens of it with the summary; absent where the model's side stopped there.
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens_after: Option<i64>,
        /// The number of the last message that the summary stands for; absent where the model's
        /// side summed up by itself, within a reply.
        #[serde(skip_serializing_if = "Option::is_none")]
        up_to: Option<i32>,
    },
    /// The model changed its list of the work.
    #[serde(rename = "session.todos")]
    Todos {
        /// The whole list.
        todos: Vec<Todo>,
    },
    /// A tool server offers other tools than the session has of it. The session keeps what it has;
    /// a call of a tool that is gone is answered as an error. All three lists are empty once the
    /// server offers again what the session has.
    #[serde(rename = "session.tool_server_changed")]
    ToolServerChanged {
        /// The server's name.
        server: String,
        /// Tools that the server did not offer when the session was made.
        added: Vec<String>,
        /// Tools of the session that the server does not offer any more.
        removed: Vec<String>,
        /// Tools of the session whose definitions are others now.
        changed: Vec<String>,
    },
    /// The session begins as a fork. It is the first event of the fork; the source has none.
    #[serde(rename = "session.forked")]
    Forked {
        /// Where it leaves its source.
        forked_from: ForkedFrom,
    },
    /// A sub-agent begins, in a session of its own.
    #[serde(rename = "session.thread_created")]
    ThreadCreated {
        /// The session of the sub-agent.
        #[schema(value_type = String)]
        session_thread_id: SessionId,
        /// Its run there.
        #[schema(value_type = String)]
        thread_run_id: RunId,
        /// The call that asked for it.
        tool_use_id: String,
        /// The name of the sub-agent.
        agent_name: String,
        /// What it is to do, in a few words.
        description: String,
    },
    /// Something happened in the session of a sub-agent while its parent waits for it. What it
    /// thought, what it was told and its single requests are only in the stream of its own session.
    #[serde(rename = "session.thread_event")]
    ThreadEvent {
        /// The session of the sub-agent.
        #[schema(value_type = String)]
        session_thread_id: SessionId,
        /// The call that asked for it.
        tool_use_id: String,
        /// The event as it is there, with its own `id` and `seq`.
        #[schema(value_type = Object)]
        event: Box<RawValue>,
    },
    /// The session changed; what did not change is absent.
    #[serde(rename = "session.updated")]
    Updated {
        /// The name for people; null if it was taken away.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>)]
        title: Option<Option<String>>,
        /// What the client keeps with the session, whole.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Object>)]
        metadata: Option<Box<RawValue>>,
        /// The permission mode from now on.
        #[serde(skip_serializing_if = "Option::is_none")]
        permission_mode: Option<PermissionMode>,
        /// Whether it is put away from now on.
        #[serde(skip_serializing_if = "Option::is_none")]
        archived: Option<bool>,
        /// What of the history is sent otherwise than it is stored from now on.
        #[serde(skip_serializing_if = "Option::is_none")]
        sent_history: Option<SentChange>,
    },
    /// A worker took the run up.
    #[serde(rename = "session.status_running")]
    StatusRunning {
        /// How many times a worker has taken this run up, this one included.
        attempt: i32,
    },
    /// The model could not answer; it will be asked again. What has streamed of the reply is to
    /// be forgotten.
    #[serde(rename = "session.status_rescheduled")]
    StatusRescheduled {
        /// How many requests of the run have failed in a row; 0 if none was sent because the model
        /// fails everybody at the moment.
        attempt: u32,
        /// When it will be asked again.
        #[schema(value_type = String, format = DateTime)]
        retry_at: Timestamp,
    },
    /// The run came to rest. It is the last event of a run, unless the run waits for somebody.
    #[serde(rename = "session.status_idle")]
    StatusIdle {
        /// Why.
        stop_reason: StopReason,
        /// The limit at which the model was asked for a final answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        limited: Option<LimitKind>,
        /// Why the answer does not fit the session's `output_schema`, if it does not.
        #[serde(skip_serializing_if = "Option::is_none")]
        output_error: Option<OutputError>,
    },
    /// Something failed.
    #[serde(rename = "session.error")]
    Error {
        /// What, for programs and for people.
        error: RunError,
    },
    /// What the run used, told when it settles.
    #[serde(rename = "session.usage")]
    Usage {
        /// Sums over all requests of the run.
        usage: Usage,
        /// What they cost, in micro-dollars; absent where no price is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        cost: Option<i64>,
    },
    /// A request to the model begins.
    #[serde(rename = "span.model_request_start")]
    ModelRequestStart {
        /// The model's name.
        model: String,
        /// The call whose tool asks; absent where the conversation goes on.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_use_id: Option<String>,
    },
    /// A request to the model ended.
    #[serde(rename = "span.model_request_end")]
    ModelRequestEnd {
        /// The event of its beginning.
        #[schema(value_type = String)]
        model_request_start_id: EventId,
        /// What it cost.
        model_usage: Usage,
        /// Why the model stopped, in its own word.
        #[serde(skip_serializing_if = "Option::is_none")]
        stop_reason: Option<String>,
        /// Whether it failed.
        is_error: bool,
        /// From sending to the last byte.
        duration_ms: i64,
        /// Where the request began to differ from the one before it in the session; none if it
        /// began as that one did, as it should.
        #[serde(skip_serializing_if = "Option::is_none")]
        prefix_changed: Option<PrefixChange>,
        /// What the model's side left out of what it was sent, by the session's `context.edits`;
        /// none if it left out nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<Vec<Object>>)]
        applied_edits: Option<Box<RawValue>>,
    },
}

impl EventBody {
    /// The types of all events.
    pub const KINDS: [&'static str; 23] = [
        "user.message",
        "user.interrupt",
        "user.tool_confirmation",
        "user.custom_tool_result",
        "agent.message",
        "agent.thinking",
        "agent.tool_use",
        "agent.custom_tool_use",
        "agent.tool_result",
        "agent.context_compacted",
        "session.todos",
        "session.tool_server_changed",
        "session.forked",
        "session.thread_created",
        THREAD_EVENT,
        "session.updated",
        "session.status_running",
        "session.status_rescheduled",
        STATUS_IDLE,
        "session.error",
        "session.usage",
        "span.model_request_start",
        "span.model_request_end",
    ];

    /// The session has another permission mode.
    pub const fn mode(mode: PermissionMode) -> Self {
        let (title, metadata, archived) = (None, None, None);
        let permission_mode = Some(mode);
        Self::Updated { title, metadata, permission_mode, archived, sent_history: None }
    }

    /// The session's history is sent in another form.
    pub const fn sent(change: SentChange) -> Self {
        let (title, metadata, archived) = (None, None, None);
        let sent_history = Some(change);
        Self::Updated { title, metadata, permission_mode: None, archived, sent_history }
    }

    /// A summary stands for the beginning of the session's history.
    pub const fn compacted(compaction: &Compaction) -> Self {
        let Compaction { up_to, tokens_before, tokens_after, .. } = *compaction;
        let tokens_after = Some(tokens_after);
        Self::ContextCompacted { tokens_before, tokens_after, up_to: Some(up_to) }
    }

    /// The type on the wire.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::UserMessage { .. } => "user.message",
            Self::UserInterrupt {} => "user.interrupt",
            Self::UserToolConfirmation { .. } => "user.tool_confirmation",
            Self::UserCustomToolResult { .. } => "user.custom_tool_result",
            Self::AgentMessage { .. } => "agent.message",
            Self::AgentThinking { .. } => "agent.thinking",
            Self::AgentToolUse { .. } => "agent.tool_use",
            Self::AgentCustomToolUse { .. } => "agent.custom_tool_use",
            Self::AgentToolResult { .. } => "agent.tool_result",
            Self::ContextCompacted { .. } => "agent.context_compacted",
            Self::Todos { .. } => "session.todos",
            Self::ToolServerChanged { .. } => "session.tool_server_changed",
            Self::Forked { .. } => "session.forked",
            Self::ThreadCreated { .. } => "session.thread_created",
            Self::ThreadEvent { .. } => THREAD_EVENT,
            Self::Updated { .. } => "session.updated",
            Self::StatusRunning { .. } => "session.status_running",
            Self::StatusRescheduled { .. } => "session.status_rescheduled",
            Self::StatusIdle { .. } => STATUS_IDLE,
            Self::Error { .. } => "session.error",
            Self::Usage { .. } => "session.usage",
            Self::ModelRequestStart { .. } => "span.model_request_start",
            Self::ModelRequestEnd { .. } => "span.model_request_end",
        }
    }
}

/// The type of the event that ends a run.
pub const STATUS_IDLE: &str = "session.status_idle";

/// The type of the events that a parent has from its sub-agents.
pub const THREAD_EVENT: &str = "session.thread_event";

/// An event before the database has numbered it.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The id, which previews of the event carry too.
    pub id: String,
    /// The type.
    pub kind: &'static str,
    /// The body as JSON; its first member is the type.
    pub body: String,
}

impl NewEvent {
    /// An event with an id of its own.
    pub fn new(body: &EventBody) -> Self {
        Self::with_id(EventId::new().to_string(), body)
    }

    /// An event that carries the id of the thing it tells of.
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "strings, numbers and raw JSON always serialize"
    )]
    pub fn with_id(id: String, body: &EventBody) -> Self {
        let json = serde_json::to_string(body).expect("an event body serializes");
        // Raw JSON may hold line ends between its tokens, and an SSE frame is one line of data.
        Self { id, kind: body.kind(), body: json.replace(['\n', '\r'], " ") }
    }
}

/// An event on the wire. The type decides which other members there are.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct Event {
    /// The event's id, the `tool_use` id for `agent.tool_use`, the message's for `user.message`.
    pub id: String,
    /// The number in the session: from 1, without a gap.
    pub seq: i64,
    /// The session.
    #[schema(value_type = String)]
    pub session_id: SessionId,
    /// The run that the event belongs to.
    #[schema(value_type = Option<String>)]
    pub run_id: Option<RunId>,
    /// When it was stored.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// The type and its fields.
    #[serde(flatten)]
    pub body: EventBody,
}

/// What the data of one SSE event can be.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum Streamed<'a> {
    /// Something that happened.
    Event(Event),
    /// Something that is not finished.
    Preview(Preview<'a>),
    /// That there is nothing more to tell of.
    Farewell(Farewell),
}
