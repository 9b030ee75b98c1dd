//! What one model accepts.

use serde::{Deserialize, Serialize};

/// How much work the model puts into its answer.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// The least.
    Low,
    /// Less than usual.
    Medium,
    /// What most models do when nothing is said.
    High,
    /// More, for long work.
    Xhigh,
    /// Without bound.
    Max,
}

impl Effort {
    /// All levels, the least first.
    pub const ALL: [Self; 5] = [Self::Low, Self::Medium, Self::High, Self::Xhigh, Self::Max];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// A way of thinking, by the `type` of the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingKind {
    /// As the model sees fit.
    Adaptive,
    /// Within a budget of tokens.
    Enabled,
    /// Not at all.
    Disabled,
    /// Only notes between calls of tools.
    BetweenTools,
}

impl ThinkingKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Adaptive, Self::Enabled, Self::Disabled, Self::BetweenTools];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::BetweenTools => "between_tools",
        }
    }
}

/// What one model accepts. What is not known is absent, and let through: the set of models is
/// open, and the model's own refusal is clear.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Capabilities {
    /// The longest prompt, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<u64>,
    /// The largest output budget of one request, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The values that `thinking.type` may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Vec<ThinkingKind>>,
    /// The highest effort at which thinking may be disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_effort_without_thinking: Option<Effort>,
    /// The values that `effort` may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Vec<Effort>>,
    /// Whether `tool_choice` may force a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced_tool_choice: Option<bool>,
    /// Whether the model takes `temperature` and its like, which this service never sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<bool>,
    /// Whether `output_schema` may be named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_outputs: Option<bool>,
    /// Whether messages may hold images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_input: Option<bool>,
    /// Whether messages may hold PDF documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdf_input: Option<bool>,
    /// Whether the model's side edits what it is sent, as `context.edits` say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_management: Option<bool>,
    /// Whether the model sums up a conversation when it is asked to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<bool>,
    /// The shortest prefix that is cached, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_cache_tokens: Option<u64>,
}

impl Capabilities {
    /// These, and where they say nothing those of `other`.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            max_input_tokens: self.max_input_tokens.or(other.max_input_tokens),
            max_tokens: self.max_tokens.or(other.max_tokens),
            thinking: self.thinking.or_else(|| other.thinking.clone()),
            max_effort_without_thinking: self
                .max_effort_without_thinking
                .or(other.max_effort_without_thinking),
            effort: self.effort.or_else(|| other.effort.clone()),
            forced_tool_choice: self.forced_tool_choice.or(other.forced_tool_choice),
            sampling: self.sampling.or(other.sampling),
            structured_outputs: self.structured_outputs.or(other.structured_outputs),
            image_input: self.image_input.or(other.image_input),
            pdf_input: self.pdf_input.or(other.pdf_input),
            context_management: self.context_management.or(other.context_management),
            compaction: self.compaction.or(other.compaction),
            min_cache_tokens: self.min_cache_tokens.or(other.min_cache_tokens),
        }
    }
}
