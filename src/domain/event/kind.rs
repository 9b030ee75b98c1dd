//! Types of events, and constructors of event bodies.

use super::EventBody;
use crate::domain::context::Compaction;
use crate::domain::permission::PermissionMode;
use crate::domain::sent_history::SentHistoryChange;

/// The type of the event that ends a run.
pub const STATUS_IDLE: &str = "session.status_idle";

/// The type of the sub-agent events in the parent's stream.
pub const THREAD_EVENT: &str = "session.thread_event";

impl EventBody {
    /// All event types.
    pub const KINDS: [&'static str; 24] = [
        "user.message",
        "user.interrupt",
        "user.tool_confirmation",
        "user.custom_tool_result",
        "user.feedback",
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

    /// A change of the session's permission mode.
    pub const fn mode(mode: PermissionMode) -> Self {
        let (title, metadata, archived) = (None, None, None);
        let permission_mode = Some(mode);
        let (model, effort, thinking, sent_history) = (None, None, None, None);
        Self::Updated {
            title,
            metadata,
            permission_mode,
            model,
            effort,
            thinking,
            archived,
            sent_history,
        }
    }

    /// A new title.
    pub const fn titled(title: String) -> Self {
        let (metadata, permission_mode, archived) = (None, None, None);
        let title = Some(Some(title));
        let (model, effort, thinking, sent_history) = (None, None, None, None);
        Self::Updated {
            title,
            metadata,
            permission_mode,
            model,
            effort,
            thinking,
            archived,
            sent_history,
        }
    }

    /// A change of the history that the model receives.
    pub const fn sent(change: SentHistoryChange) -> Self {
        let (title, metadata, archived) = (None, None, None);
        let sent_history = Some(change);
        let (permission_mode, model, effort, thinking) = (None, None, None, None);
        Self::Updated {
            title,
            metadata,
            permission_mode,
            model,
            effort,
            thinking,
            archived,
            sent_history,
        }
    }

    /// A compaction: a summary replaces the beginning of the session's history.
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
            Self::UserFeedback { .. } => "user.feedback",
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
