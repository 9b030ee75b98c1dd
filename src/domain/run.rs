//! Runs: the work that one user message starts.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::budget::{Scope, Unit};
use super::ids::{RunId, SessionId};
use super::output_schema::Verdict;
use super::pending::PendingCall;
use super::permission::PermissionMode;
use super::run_log::RunLog;
use super::tool::{ToolChoice, defined_names};
use super::trace::Trace;
use super::usage::Usage;

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Accepted, waiting for a worker or for its turn.
    Queued,
    /// A worker holds its lease.
    Running,
    /// Waits for the client.
    RequiresAction,
    /// The agent settled.
    Completed,
    /// The service could not finish it.
    Failed,
    /// The client stopped it.
    Cancelled,
}

impl RunStatus {
    /// The word on the wire and in the database.
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

    /// Reads the word in the database.
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

    /// Whether nothing more will happen.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Why the model stopped, in its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelStop {
    /// Finished.
    EndTurn,
    /// Asks for tools.
    ToolUse,
    /// The output budget is used up.
    MaxTokens,
    /// A stop string of the session came up.
    StopSequence,
    /// A tool loop on the model's side wants to be resumed.
    PauseTurn,
    /// A classifier declined.
    Refusal,
    /// The conversation was summed up, and wants to be resumed.
    Compaction,
    /// The context is full.
    ModelContextWindowExceeded,
    /// A word that this version does not know.
    Other(String),
}

impl ModelStop {
    /// The word on the wire.
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
    /// Whether the model wants to go on from its own reply, without a word of the user.
    pub fn wants_to_go_on(&self) -> bool {
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

/// How far a run may go. A limit that is not set does not bind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Model requests that may be followed by tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1000)]
    pub rounds: Option<u32>,
    /// Input and output tokens of all requests together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub tokens: Option<i64>,
    /// Cost of all requests together, in micro-dollars, by the operator's prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub cost: Option<i64>,
    /// Seconds since the run first started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub seconds: Option<u32>,
}

impl Limits {
    /// Rounds of a run that names no limit.
    pub const DEFAULT_ROUNDS: u32 = 10;
    /// The highest number of rounds that may be asked for.
    pub const MAX_ROUNDS: u32 = 1000;

    /// Whether none of them binds.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// These limits, and where they are silent those of `other`.
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

/// What a message means for a session that is busy: a run is live, or others wait.
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
    /// It waits its turn.
    #[default]
    Queue,
    /// It is refused.
    Reject,
    /// The live run is cancelled, and the message waits for its end and its turn.
    Interrupt,
}

/// What a message asks of its run, stored with it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RunOptions {
    /// The limits that the message names.
    #[serde(default)]
    pub limits: Limits,
    /// The choice of tools in round 1.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// The definitions of tools that the client runs in this run only, an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Box<RawValue>>,
    /// The permission mode of the session from this message on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// The trace of the request that posted the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

impl RunOptions {
    /// The names of the tools that the client runs in this run only.
    pub fn tool_names(&self) -> Vec<String> {
        self.tools.as_deref().map(defined_names).unwrap_or_default()
    }
}

/// Which limit ended a run.
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

/// Why a run, and with it the session, came to rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its answer.
    EndTurn,
    /// The model wrote one of the session's stop strings.
    StopSequence,
    /// The answer was cut by the output budget.
    MaxTokens,
    /// The answer was cut by the end of the context window.
    ModelContextWindowExceeded,
    /// The model declined; its draft was discarded.
    Refusal(Refusal),
    /// The model stopped for a reason that this version does not know.
    Unknown {
        /// The model's word.
        model_stop_reason: String,
    },
    /// The model could not be reached, or refused the request.
    RetriesExhausted,
    /// A budget does not allow the next request.
    BudgetExceeded {
        /// Whose budget.
        scope: Scope,
        /// Of what.
        unit: Unit,
    },
    /// The client stopped the run.
    Cancelled,
    /// The run waits for the client: it goes on when these calls are answered.
    RequiresAction {
        /// The events of the calls, which carry their ids.
        event_ids: Vec<String>,
    },
}

/// Why the model declined, as far as it says so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct Refusal {
    /// The classifier's word, such as `cyber` or `bio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// A sentence for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
}

/// A failure as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RunError {
    /// A stable word for programs.
    pub r#type: ErrorType,
    /// A sentence for people.
    pub message: String,
}

/// What went wrong, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// The model is overloaded or unavailable, after all retries.
    ModelOverloadedError,
    /// The model limits our rate, after all retries.
    ModelRateLimitedError,
    /// The model refused the request, or its reply could not be read.
    ModelRequestFailedError,
    /// The account of the model cannot pay.
    BillingError,
    /// A budget of the session or of its owner does not allow another request.
    BudgetExceeded,
    /// Worker after worker died on this run.
    CrashLoop,
    /// A defect of the service.
    InternalError,
}

/// What a settled run leaves behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Why it settled.
    pub stop_reason: StopReason,
    /// The limit at which the model was asked for a final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited: Option<LimitKind>,
    /// All text of the last assistant message.
    #[serde(default)]
    pub output_text: String,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
    /// Whether the answer fits the session's schema, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Verdict>,
}

impl Outcome {
    /// What a run leaves that was cancelled before it said anything.
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
    /// Where it stands.
    pub status: RunStatus,
    /// The number of the event that accepted it.
    pub accepted_seq: i64,
    /// Its place in the session's queue, from 1; none when it does not wait.
    pub queue_position: Option<i64>,
    /// The calls that it waits for somebody to answer.
    pub pending: Vec<PendingCall>,
    /// What it has called; nothing where it was read among others.
    pub log: RunLog,
    /// What it left behind.
    pub outcome: Option<Outcome>,
    /// Whether it came with an import: it was made elsewhere, and used nothing here.
    pub is_imported: bool,
    /// Requests to the model.
    pub model_requests: i32,
    /// Sums over them.
    pub usage: Usage,
    /// What they cost, in micro-dollars; none where no price is known.
    pub cost: Option<i64>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When a worker first took it up.
    pub started_at: Option<Timestamp>,
    /// When it settled.
    pub finished_at: Option<Timestamp>,
}

impl Run {
    /// Whether all that it waited for is answered, and a worker is about to take it up.
    pub const fn goes_on(&self) -> bool {
        matches!(self.status, RunStatus::RequiresAction) && self.pending.is_empty()
    }

    /// Whether nothing more will happen before somebody does something.
    pub const fn is_at_rest(&self) -> bool {
        match self.status {
            RunStatus::RequiresAction => !self.goes_on(),
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => true,
            RunStatus::Queued | RunStatus::Running => false,
        }
    }
}
