//! The record of one try of a model request, kept for inspection.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One try of a model request. A failed try is repeated if the failure is retryable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[schema(as = Attempt)]
pub struct ModelTry {
    /// Time of sending.
    #[schema(value_type = String, format = DateTime)]
    #[serde(serialize_with = "crate::domain::rfc3339::time")]
    pub started_at: Timestamp,
    /// Time until the head of the reply arrived, in milliseconds; none if it never arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_ms: Option<i64>,
    /// Total duration in milliseconds.
    pub duration_ms: i64,
    /// The HTTP status of the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The model provider's request id, for support requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The kind of the failure; none for a complete reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The cause of the failure: the message of the model's server, truncated and without keys, or
    /// why there was no connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
