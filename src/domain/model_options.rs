//! Model options of a session besides prompt, tools and thinking.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::generation::Generation;
use super::model::Effort;
use super::tool::ToolChoice;

/// The model options of a session. Absent options are not sent; the model's default applies.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ModelOptions {
    /// The effort that the model puts into an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// The capacity that requests may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<ServiceTier>,
    /// The end user's id for the model provider: an opaque name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The JSON Schema of the answer, as the client wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<RawValue>>,
    /// Names of beta features.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub betas: Vec<String>,
    /// The tool choice of runs whose messages have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The parameters of the generation of replies.
    #[serde(default, skip_serializing_if = "Generation::is_unset")]
    pub generation: Generation,
}

/// The capacity that requests may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceTier {
    /// Priority capacity, if available.
    Auto,
    /// Standard capacity only.
    StandardOnly,
}

impl ModelOptions {
    /// Returns `true` if no option is set.
    pub fn is_unset(&self) -> bool {
        let Self { effort, service_tier, user_id, output_schema, betas, tool_choice, generation } =
            self;
        effort.is_none()
            && service_tier.is_none()
            && user_id.is_none()
            && output_schema.is_none()
            && betas.is_empty()
            && tool_choice.is_none()
            && generation.is_unset()
    }
}
