//! Validation of answers against a JSON Schema.

mod limits;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub use limits::{SchemaCounts, UnsupportedPart, counts, unsupported_part};

/// The result of the validation of an answer against its session's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum OutputVerdict {
    /// The answer is valid.
    Fits,
    /// The answer is invalid.
    Fails {
        /// The error.
        error: OutputError,
    },
}

/// The reason why an answer does not match its session's schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutputError {
    /// A stable code for programs.
    pub r#type: OutputErrorType,
    /// A description for people.
    pub message: String,
    /// The position in the answer, as a JSON pointer; absent if the answer is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
}

/// The code of an output error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputErrorType {
    /// The answer is empty.
    NoAnswer,
    /// The answer is not JSON. A truncated answer usually is not.
    NotJson,
    /// The answer is JSON that does not match the schema.
    SchemaMismatch,
}

impl OutputVerdict {
    /// Validates an answer.
    pub fn of(schema: &RawValue, answer: &str) -> Self {
        match error(schema, answer) {
            Some(error) => Self::Fails { error },
            None => Self::Fits,
        }
    }

    /// Returns the error of an invalid answer.
    pub const fn error(&self) -> Option<&OutputError> {
        match self {
            Self::Fits => None,
            Self::Fails { error } => Some(error),
        }
    }
}

fn error(schema: &RawValue, answer: &str) -> Option<OutputError> {
    let failed = |r#type, message: String, pointer| Some(OutputError { r#type, message, pointer });
    if answer.trim().is_empty() {
        return failed(OutputErrorType::NoAnswer, "there is no answer".to_owned(), None);
    }
    let answer: Value = match serde_json::from_str(answer) {
        Ok(answer) => answer,
        Err(error) => {
            return failed(OutputErrorType::NotJson, format!("is not JSON: {error}"), None);
        }
    };
    // The schema itself was checked when the session was created.
    let schema: Value = serde_json::from_str(schema.get()).ok()?;
    let validator = jsonschema::validator_for(&schema).ok()?;
    let error = validator.iter_errors(&answer).next()?;
    let pointer = error.instance_path().to_string();
    failed(OutputErrorType::SchemaMismatch, error.to_string(), Some(pointer))
}
