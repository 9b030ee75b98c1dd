//! One try of a request to the model, as there is to look at afterwards.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One try of a request. A request is tried again where that may help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Attempt {
    /// When it was sent.
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    /// How long the head of the reply took; none if it never came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_ms: Option<i64>,
    /// How long it took in all.
    pub duration_ms: i64,
    /// The status of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The server's own id of it, to ask the server's people about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The kind of the failure; none if there is a whole reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
