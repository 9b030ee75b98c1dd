//! Members of requests that need something that the service does not have.

use serde_json::Value;

use crate::http::error::ApiError;

/// Refuses a member unless it is empty.
pub(super) fn refuse(value: Option<&Value>, pointer: &str, reason: &str) -> Result<(), ApiError> {
    let is_empty = value.is_none_or(|value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    });
    if is_empty {
        Ok(())
    } else {
        Err(ApiError::field(pointer, format!("is not supported: {reason}")))
    }
}
