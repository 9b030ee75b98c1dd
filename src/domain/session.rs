//! Sessions: one conversation with the settings pinned at its creation.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::run::Limits;

/// What every request of a session repeats byte for byte.
///
/// Thinking blocks are bound to the exact system prompt and tools they were made with, and a
/// prompt cache hits only on an unchanged prefix. So the texts are fixed when the session is
/// made, and a later change of the service's configuration does not reach it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    /// The model's name.
    pub model: String,
    /// The output budget of one request.
    pub max_tokens: u32,
    /// The system prompt.
    pub system: String,
    /// The tool definitions, an array, in the order of the catalogue.
    pub tools: Box<RawValue>,
    /// The thinking setting, if the client named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<Box<RawValue>>,
    /// Strings that end an answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Limits for runs that name none.
    #[serde(default)]
    pub limits: Limits,
}
