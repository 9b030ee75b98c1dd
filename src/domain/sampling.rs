//! Sampling: a request of a tool to the model, outside the conversation.

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::to_raw_value;

use super::context::Context;
use super::model_options::ModelOptions;
use super::session::Settings;
use super::system::SystemPrompt;

/// A sampling request to the session's model: one prompt without history and tools, so that the
/// reply is text only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Question)]
pub struct SamplingRequest {
    /// The call whose tool sends the request.
    pub tool_use_id: String,
    /// The system prompt; absent to send none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The user message.
    pub prompt: String,
    /// The output budget in tokens.
    pub max_tokens: u32,
}

impl SamplingRequest {
    /// Returns the messages of the request: exactly one.
    pub fn messages(&self) -> String {
        let text = json!({"type": "text", "text": self.prompt});
        json!({"role": "user", "content": [text]}).to_string()
    }
}

impl Settings {
    /// Returns the settings of a sampling request: the session's model without the settings that
    /// shape the conversation.
    #[must_use]
    pub fn for_question(&self, question: &SamplingRequest) -> Self {
        let ModelOptions { service_tier, user_id, .. } = self.model_options.as_ref().clone();
        let options = ModelOptions { service_tier, user_id, ..ModelOptions::default() };
        Self {
            max_tokens: question.max_tokens,
            system: question.system.as_deref().map(SystemPrompt::from).unwrap_or_default(),
            // An empty array always serializes.
            tools: to_raw_value::<[(); 0]>(&[]).unwrap_or_default(),
            thinking: None,
            stop_sequences: Vec::new(),
            model_options: options.into(),
            context: Box::<Context>::default(),
            ..self.clone()
        }
    }
}
