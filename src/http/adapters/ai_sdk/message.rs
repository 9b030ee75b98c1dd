//! A message in a request.

use serde::Deserialize;
use serde_json::Value;

/// A message of the AI SDK (`UIMessage`).
#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub(in crate::http) struct ChatMessage {
    /// The client's id of the message. A user message with an id that the conversation has already
    /// starts no second run; with other content it is an edit.
    #[schema(pattern = "^[A-Za-z0-9_.-]{1,128}$")]
    pub(super) id: String,
    /// `user`, `assistant` or `system`.
    pub(super) role: String,
    /// The parts: of a user message `text` and `file`.
    #[schema(value_type = Vec<Object>)]
    pub(super) parts: Vec<Value>,
}
