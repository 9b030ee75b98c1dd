//! What a session asks of its model besides prompt, tools and thinking.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::model::Effort;

/// What a session asks of its model. What is absent is not sent, and the model's default holds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ModelOptions {
    /// How much work the model puts into an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Which capacity requests may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_tier: Option<ServiceTier>,
    /// Who the model's side is told that it works for: an opaque name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The JSON Schema that the answer has to fit, as the client wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<RawValue>>,
    /// Names of beta features.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub betas: Vec<String>,
}

/// Which capacity requests may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceTier {
    /// Capacity that was bought ahead, where there is some.
    Auto,
    /// Never capacity that was bought ahead.
    StandardOnly,
}

impl ModelOptions {
    /// Whether nothing is asked.
    pub fn is_unset(&self) -> bool {
        let Self { effort, service_tier, user_id, output_schema, betas } = self;
        effort.is_none()
            && service_tier.is_none()
            && user_id.is_none()
            && output_schema.is_none()
            && betas.is_empty()
    }
}
