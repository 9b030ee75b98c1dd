//! The capabilities of one model.

use serde::{Deserialize, Serialize};

/// The effort that the model puts into its answer.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Least effort.
    Low,
    /// Below the default of most models.
    Medium,
    /// The default of most models.
    High,
    /// Above the default, for long tasks.
    Xhigh,
    /// Maximum effort.
    Max,
}

impl Effort {
    /// All levels in ascending order.
    pub const ALL: [Self; 5] = [Self::Low, Self::Medium, Self::High, Self::Xhigh, Self::Max];

    /// The level as text on the wire.
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

/// A thinking mode, the `type` of the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThinkingKind {
    /// The model decides how much it thinks.
    Adaptive,
    /// Thinking within a token budget.
    Enabled,
    /// No thinking.
    Disabled,
    /// Thinking only between tool calls.
    BetweenTools,
}

impl ThinkingKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Adaptive, Self::Enabled, Self::Disabled, Self::BetweenTools];

    /// The mode as text on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
            Self::BetweenTools => "between_tools",
        }
    }
}

/// The capabilities of one model. Unknown capabilities are absent and not checked: the set of
/// models is open, and the model's own refusal is clear.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Capabilities {
    /// Maximum prompt length in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<u64>,
    /// Maximum output budget of one request, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The supported values of `thinking.type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Vec<ThinkingKind>>,
    /// The highest effort at which thinking can be disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_effort_without_thinking: Option<Effort>,
    /// The supported values of `effort`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<Vec<Effort>>,
    /// True if `tool_choice` can force a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced_tool_choice: Option<bool>,
    /// True if the model accepts `temperature`, `top_p` and `top_k`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<bool>,
    /// True if the model accepts `temperature` and `top_p` together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature_with_top_p: Option<bool>,
    /// True if `output_schema` is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_outputs: Option<bool>,
    /// True if messages may contain images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_input: Option<bool>,
    /// True if messages may contain PDF documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdf_input: Option<bool>,
    /// True if the provider applies the edits of `context.edits`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_management: Option<bool>,
    /// True if the provider compacts a conversation on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<bool>,
    /// True if the model accepts the versions of server tools that run code by default, such as
    /// `web_search_20260209`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic_filtering: Option<bool>,
    /// True if the model's server expands references to deferred tools (tool search).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_search: Option<bool>,
    /// Minimum length of a cached prefix in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_cache_tokens: Option<u64>,
}

impl Capabilities {
    /// Returns the kinds of content that the model is known to accept.
    pub fn inputs(&self) -> Vec<&'static str> {
        let others = [("image", self.image_input), ("pdf", self.pdf_input)];
        let known = others.into_iter().filter(|(_, takes)| *takes == Some(true));
        ["text"].into_iter().chain(known.map(|(name, _)| name)).collect()
    }

    /// Returns the features that the model is known not to support.
    pub fn lacks(&self) -> Vec<&'static str> {
        let takes_some = |values: Option<usize>| values.map(|values| values > 0);
        let features = [
            ("compaction", self.compaction),
            ("context_edits", self.context_management),
            ("effort", takes_some(self.effort.as_ref().map(Vec::len))),
            ("forced_tool_choice", self.forced_tool_choice),
            ("images", self.image_input),
            ("pdf", self.pdf_input),
            ("sampling", self.sampling),
            ("structured_outputs", self.structured_outputs),
            ("thinking", takes_some(self.thinking.as_ref().map(Vec::len))),
            ("tool_calls_from_code", self.dynamic_filtering),
            ("tool_search", self.tool_search),
        ];
        features.into_iter().filter(|(_, has)| *has == Some(false)).map(|(name, _)| name).collect()
    }

    /// Returns these capabilities, with unknown ones taken from `other`.
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
            temperature_with_top_p: self.temperature_with_top_p.or(other.temperature_with_top_p),
            structured_outputs: self.structured_outputs.or(other.structured_outputs),
            image_input: self.image_input.or(other.image_input),
            pdf_input: self.pdf_input.or(other.pdf_input),
            context_management: self.context_management.or(other.context_management),
            compaction: self.compaction.or(other.compaction),
            dynamic_filtering: self.dynamic_filtering.or(other.dynamic_filtering),
            tool_search: self.tool_search.or(other.tool_search),
            min_cache_tokens: self.min_cache_tokens.or(other.min_cache_tokens),
        }
    }
}
