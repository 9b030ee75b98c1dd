//! Calls that wait for an answer from a client or a user.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use super::permission::Awaits;

/// A call that waits for a decision or a result of the client.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct PendingCall {
    /// The model's own id of the call.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// The input as the model wrote it.
    #[schema(value_type = Object)]
    pub input: Box<RawValue>,
    /// The required action.
    pub awaits: Awaits,
    /// Time at which the call gets its default decision or result.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    pub answer_by: Timestamp,
    /// The reason why approval is required.
    #[serde(skip)]
    pub reason: Option<String>,
    /// The change that the call would make to a file, as a unified diff.
    #[serde(skip)]
    pub diff: Option<String>,
}
