//! Sampling: a request of a tool to the model, outside the conversation.

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::to_raw_value;

use super::context::Context;
use super::model_options::ModelOptions;
use super::session::Settings;
use super::system::SystemPrompt;

/// One prompt to the session's model, without history and tools.
#[derive(Debug, Clone, Copy)]
pub struct Prompt<'a> {
    /// The system prompt; none to send none.
    pub system: Option<&'a str>,
    /// The user message.
    pub text: &'a str,
    /// The output budget in tokens.
    pub max_tokens: u32,
}

impl Prompt<'_> {
    /// Returns the messages of the request: exactly one.
    pub fn messages(&self) -> String {
        let text = json!({"type": "text", "text": self.text});
        json!({"role": "user", "content": [text]}).to_string()
    }
}

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
    /// Returns the prompt.
    pub fn prompt(&self) -> Prompt<'_> {
        let Self { system, prompt, max_tokens, .. } = self;
        Prompt { system: system.as_deref(), text: prompt, max_tokens: *max_tokens }
    }
}

impl Settings {
    /// Returns the settings of a request with this prompt: the session's model without the settings
    /// that shape the conversation.
    #[must_use]
    pub fn for_prompt(&self, prompt: Prompt<'_>) -> Self {
        let ModelOptions { service_tier, user_id, .. } = self.model_options.as_ref().clone();
        let options = ModelOptions { service_tier, user_id, ..ModelOptions::default() };
        Self {
            max_tokens: prompt.max_tokens,
            system: prompt.system.map(SystemPrompt::from).unwrap_or_default(),
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
