//! Calls that wait for somebody.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use super::permission::Awaits;

/// A call that waits for somebody.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct PendingCall {
    /// The model's own id of the call.
    pub tool_use_id: String,
    /// The tool's name.
    pub name: String,
    /// The input as the model wrote it.
    #[schema(value_type = Object)]
    pub input: Box<RawValue>,
    /// Who must act.
    pub awaits: Awaits,
    /// When the call gets its default answer.
    #[schema(value_type = String, format = DateTime)]
    pub answer_by: Timestamp,
    /// Why somebody is asked.
    #[serde(skip)]
    pub reason: Option<String>,
    /// What the call would change of a file, as a unified diff.
    #[serde(skip)]
    pub diff: Option<String>,
}
