//! Stop reasons of the model and of runs.

use serde::{Deserialize, Serialize};

use super::budget::{Scope, Unit};

/// The model's own reason to stop (`stop_reason` of its reply).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelStop {
    /// The answer is finished.
    EndTurn,
    /// The reply asks for tool calls.
    ToolUse,
    /// The output budget is used up.
    MaxTokens,
    /// The model wrote a stop sequence of the session: this one, if the server names it.
    StopSequence(Option<String>),
    /// The model provider paused its server-side tool loop; the request is sent again to resume it.
    PauseTurn,
    /// A classifier declined.
    Refusal,
    /// The provider compacted the conversation; the request is sent again to continue.
    Compaction,
    /// The context is full.
    ModelContextWindowExceeded,
    /// Not a reason of the model: the client stopped the run while the reply was received.
    Interrupted,
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
            Self::StopSequence(_) => "stop_sequence",
            Self::PauseTurn => "pause_turn",
            Self::Refusal => "refusal",
            Self::Compaction => "compaction",
            Self::ModelContextWindowExceeded => "model_context_window_exceeded",
            Self::Interrupted => "interrupted",
            Self::Other(word) => word,
        }
    }
}

impl ModelStop {
    /// Returns `true` if the model continues from its own reply, without a new user message.
    pub fn continues_reply(&self) -> bool {
        matches!(self, Self::PauseTurn | Self::Compaction)
    }

    /// The stop sequence that the model wrote, if that was the reason.
    pub fn sequence(&self) -> Option<&str> {
        if let Self::StopSequence(sequence) = self { sequence.as_deref() } else { None }
    }

    /// Adds the stop sequence that the model wrote, if that was the reason.
    #[must_use]
    pub fn with_sequence(self, sequence: Option<String>) -> Self {
        if matches!(self, Self::StopSequence(_)) { Self::StopSequence(sequence) } else { self }
    }
}

impl From<&str> for ModelStop {
    fn from(word: &str) -> Self {
        match word {
            "end_turn" => Self::EndTurn,
            "tool_use" => Self::ToolUse,
            "max_tokens" => Self::MaxTokens,
            "stop_sequence" => Self::StopSequence(None),
            "pause_turn" => Self::PauseTurn,
            "refusal" => Self::Refusal,
            "compaction" => Self::Compaction,
            "model_context_window_exceeded" => Self::ModelContextWindowExceeded,
            "interrupted" => Self::Interrupted,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// The reason why a run, and with it its session, became idle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StopReason {
    /// The model finished its answer.
    EndTurn,
    /// The model wrote a stop sequence of the session.
    StopSequence {
        /// The stop sequence; absent if the model's server does not name it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stop_sequence: Option<String>,
    },
    /// The answer is truncated at the output budget.
    MaxTokens,
    /// The answer is truncated at the end of the context window.
    ModelContextWindowExceeded,
    /// The model declined; its draft was discarded.
    Refusal(Refusal),
    /// The model stopped for a reason that this version does not know, or that is no end of an
    /// answer: `tool_use` if the model called a tool although a limit allowed no further calls, and
    /// gave no answer.
    Unknown {
        /// The model's stop reason.
        model_stop_reason: String,
    },
    /// The model was unreachable or overloaded, after all retries.
    RetriesExhausted,
    /// The run failed, and a retry could not help: the model's server refused the request, or it is
    /// a failure of the service. The run's `error` names the cause.
    Error,
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
