//! Runs: the work that one user message starts.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::budget::{Scope, Unit};
use super::ids::{RunId, SessionId};
use super::output_schema::OutputVerdict;
use super::pending_call::PendingCall;
use super::permission::PermissionMode;
use super::run_log::RunLog;
use super::tool::{ToolChoice, defined_names};
use super::trace::Trace;
use super::usage::Usage;

/// The state of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted; waits for a worker, or for an earlier run of the session.
    Queued,
    /// A worker holds its lease.
    Running,
    /// Waits for the client to answer calls.
    RequiresAction,
    /// The model finished its answer.
    Completed,
    /// The service could not finish it.
    Failed,
    /// The client cancelled it.
    Cancelled,
}

impl RunStatus {
    /// The status as text, on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::RequiresAction => "requires_action",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Parses the text that the database stores.
    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::Queued,
            Self::Running,
            Self::RequiresAction,
            Self::Completed,
            Self::Failed,
            Self::Cancelled,
        ]
        .into_iter()
        .find(|status| status.as_str() == text)
    }

    /// Returns `true` for a state that never changes again.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// The model's own reason to stop (`stop_reason` of its reply).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelStop {
    /// The answer is finished.
    EndTurn,
    /// The reply asks for tool calls.
    ToolUse,
    /// The output budget is used up.
    MaxTokens,
    /// The model wrote a stop sequence of the session.
    StopSequence,
    /// The model provider paused its server-side tool loop; the request is sent again to resume it.
    PauseTurn,
    /// A classifier declined.
    Refusal,
    /// The provider compacted the conversation; the request is sent again to continue.
    Compaction,
    /// The context is full.
    ModelContextWindowExceeded,
    /// A reason that this version does not know.
    Other(String),
}

impl ModelStop {
    /// The value on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::PauseTurn => "pause_turn",
            Self::Refusal => "refusal",
            Self::Compaction => "compaction",
            Self::ModelContextWindowExceeded => "model_context_window_exceeded",
            Self::Other(word) => word,
        }
    }
}

impl ModelStop {
    /// Returns `true` if the model continues from its own reply, without a new user message.
    pub fn continues_reply(&self) -> bool {
        matches!(self, Self::PauseTurn | Self::Compaction)
    }
}

impl From<&str> for ModelStop {
    fn from(word: &str) -> Self {
        match word {
            "end_turn" => Self::EndTurn,
            "tool_use" => Self::ToolUse,
            "max_tokens" => Self::MaxTokens,
            "stop_sequence" => Self::StopSequence,
            "pause_turn" => Self::PauseTurn,
            "refusal" => Self::Refusal,
            "compaction" => Self::Compaction,
            "model_context_window_exceeded" => Self::ModelContextWindowExceeded,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// Limits of a run. A limit that is not set does not apply.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of model requests that tool calls may follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1000)]
    pub rounds: Option<u32>,
    /// Maximum number of input and output tokens of all requests together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub tokens: Option<i64>,
    /// Maximum cost of all requests together, in micro-dollars, by the operator's prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub cost: Option<i64>,
    /// Maximum time since the run first started, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub seconds: Option<u32>,
}

impl Limits {
    /// Maximum rounds of a run that sets no limit.
    pub const DEFAULT_ROUNDS: u32 = 10;
    /// The highest number of rounds that a request can set.
    pub const MAX_ROUNDS: u32 = 1000;

    /// Returns `true` if no limit is set.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these limits, with the limits of `other` where these are not set.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            rounds: self.rounds.or(other.rounds),
            tokens: self.tokens.or(other.tokens),
            cost: self.cost.or(other.cost),
            seconds: self.seconds.or(other.seconds),
        }
    }
}

/// The treatment of a message for a busy session: a run is live, or messages are queued.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    Serialize,
    Deserialize,
    utoipa::ToSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum OnBusy {
    /// Queue the message.
    #[default]
    Queue,
    /// Reject the message with a conflict.
    Reject,
    /// Cancel the live run and queue the message.
    Interrupt,
}

/// The options of a message for its run, stored with the run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RunOptions {
    /// Limits of the run.
    #[serde(default)]
    pub limits: Limits,
    /// The tool choice of round 1.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// The definitions of the tools that the client runs in this run only, as an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Box<RawValue>>,
    /// The permission mode of the session, from this message on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// The trace context of the request that posted the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

impl RunOptions {
    /// Returns the names of the tools that the client runs in this run only.
    pub fn tool_names(&self) -> Vec<String> {
        self.tools.as_deref().map(defined_names).unwrap_or_default()
    }
}

/// The limit that ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Rounds.
    Rounds,
    /// Tokens.
    Tokens,
    /// Cost.
    Cost,
    /// Seconds.
    Seconds,
}

/// The reason why a run, and with it its session, became idle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its answer.
    EndTurn,
    /// The model wrote a stop sequence of the session.
    StopSequence,
    /// The answer is truncated at the output budget.
    MaxTokens,
    /// The answer is truncated at the end of the context window.
    ModelContextWindowExceeded,
    /// The model declined; its draft was discarded.
    Refusal(Refusal),
    /// The model stopped for a reason that this version does not know.
    Unknown {
        /// The model's stop reason.
        model_stop_reason: String,
    },
    /// The model was unreachable or refused the request, after all retries.
    RetriesExhausted,
    /// A budget does not allow the next request.
    BudgetExceeded {
        /// The owner of the budget.
        scope: Scope,
        /// The unit of the budget.
        unit: Unit,
    },
    /// The client cancelled the run.
    Cancelled,
    /// The run waits for the client and continues when these calls are answered.
    RequiresAction {
        /// The ids of the events that announced the calls.
        event_ids: Vec<String>,
    },
}

/// The model's reason for a refusal, as far as the model gives one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Refusal {
    /// The classifier's category, such as `cyber` or `bio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// An explanation for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// An error of a run, as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunError {
    /// A stable code for programs.
    pub r#type: ErrorType,
    /// A description for people.
    pub message: String,
}

/// The code of a run's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The model is overloaded or unavailable, after all retries.
    ModelOverloadedError,
    /// The model limits the service's request rate, after all retries.
    ModelRateLimitedError,
    /// The model refused the request, or its reply could not be read.
    ModelRequestFailedError,
    /// The model account has no credit or its billing failed.
    BillingError,
    /// A budget of the session or of its owner does not allow the next request.
    BudgetExceeded,
    /// Several workers in a row terminated while they executed this run.
    CrashLoop,
    /// A defect of the service.
    InternalError,
}

/// The outcome of a settled run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The reason why the run settled.
    pub stop_reason: StopReason,
    /// The limit at which the service asked the model for a final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<LimitKind>,
    /// All text of the last assistant message.
    #[serde(default)]
    pub output_text: String,
    /// The error of a failed run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// The check of the answer against the session's output schema, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<OutputVerdict>,
}

impl Outcome {
    /// The outcome of a run that was cancelled before the model answered.
    pub const fn cancelled() -> Self {
        Self {
            stop_reason: StopReason::Cancelled,
            limited: None,
            output_text: String::new(),
            error: None,
            output: None,
        }
    }
}

/// A run as stored.
#[derive(Debug, Clone)]
pub struct Run {
    /// The id.
    pub id: RunId,
    /// The session.
    pub session_id: SessionId,
    /// The user message that started it.
    pub message_id: String,
    /// The current state.
    pub status: RunStatus,
    /// The sequence number of the event that accepted it.
    pub accepted_seq: i64,
    /// Position in the session's queue, from 1; none when the run is not queued.
    pub queue_position: Option<i64>,
    /// Calls that wait for an answer.
    pub pending: Vec<PendingCall>,
    /// The tool calls of the run; empty when the run was read as part of a list.
    pub log: RunLog,
    /// The outcome, once the run has settled.
    pub outcome: Option<Outcome>,
    /// True for a run that an import created: it executed elsewhere and used nothing here.
    pub is_imported: bool,
    /// Number of requests to the model.
    pub model_requests: i32,
    /// Token usage of all requests.
    pub usage: Usage,
    /// Cost of all requests in micro-dollars; none when no price is known.
    pub cost: Option<i64>,
    /// Time of acceptance.
    pub created_at: Timestamp,
    /// Time at which a worker first started it.
    pub started_at: Option<Timestamp>,
    /// Time at which it settled.
    pub finished_at: Option<Timestamp>,
}

impl Run {
    /// Returns `true` if all its pending calls are answered, so that a worker is about to resume
    /// it.
    pub const fn is_resumable(&self) -> bool {
        matches!(self.status, RunStatus::RequiresAction) && self.pending.is_empty()
    }

    /// Returns `true` if the run does not change before the client acts.
    pub const fn is_idle(&self) -> bool {
        match self.status {
            RunStatus::RequiresAction => !self.is_resumable(),
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => true,
            RunStatus::Queued | RunStatus::Running => false,
        }
    }
}
