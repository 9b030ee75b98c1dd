//! What a tool asks the model, apart from the conversation.

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::to_raw_value;

use super::context::Context;
use super::model_options::ModelOptions;
use super::session::Settings;
use super::system::SystemPrompt;

/// A question to the session's model: one text, no history and no tools, so that nothing more can
/// come of it than a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Question {
    /// The call whose tool asks.
    pub tool_use_id: String,
    /// The system prompt; none is sent where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// What the model reads as the user's message.
    pub prompt: String,
    /// The output budget.
    pub max_tokens: u32,
}

impl Question {
    /// The messages of the request: one.
    pub fn messages(&self) -> String {
        let text = json!({"type": "text", "text": self.prompt});
        json!({"role": "user", "content": [text]}).to_string()
    }
}

impl Settings {
    /// The settings of a request that carries a question: the session's model, and nothing of what
    /// shapes its answers.
    #[must_use]
    pub fn for_question(&self, question: &Question) -> Self {
        let ModelOptions { service_tier, user_id, .. } = self.model_options.as_ref().clone();
        let options = ModelOptions { service_tier, user_id, ..ModelOptions::default() };
        Self {
            max_tokens: question.max_tokens,
            system: question.system.as_deref().map(SystemPrompt::from).unwrap_or_default(),
            // No tools: an empty array is always JSON.
            tools: to_raw_value::<[(); 0]>(&[]).unwrap_or_default(),
            thinking: None,
            stop_sequences: Vec::new(),
            model_options: options.into(),
            context: Box::<Context>::default(),
            ..self.clone()
        }
    }
}
