//! Answers that have to fit a JSON Schema.

mod limits;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub use limits::{Broken, broken};

/// Whether an answer fits the schema of its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Fits,
    /// It does not.
    Fails {
        /// Why.
        error: OutputError,
    },
}

/// Why an answer does not fit the schema of its session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OutputError {
    /// A stable word for programs.
    pub r#type: OutputErrorType,
    /// A sentence for people.
    pub message: String,
    /// The place in the answer, as a JSON pointer; absent for an answer that is no JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
}

/// Why an answer does not fit the schema of its session, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputErrorType {
    /// There is no answer.
    NoAnswer,
    /// The answer is no JSON. An answer that was cut is not, as a rule.
    NotJson,
    /// The answer is JSON of another shape.
    SchemaMismatch,
}

impl Verdict {
    /// Looks at an answer.
    pub fn of(schema: &RawValue, answer: &str) -> Self {
        match error(schema, answer) {
            Some(error) => Self::Fails { error },
            None => Self::Fits,
        }
    }

    /// Why the answer does not fit, if it does not.
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
            return failed(OutputErrorType::NotJson, format!("is no JSON: {error}"), None);
        }
    };
    // Checked when the session was made.
    let schema: Value = serde_json::from_str(schema.get()).ok()?;
    let validator = jsonschema::validator_for(&schema).ok()?;
    let error = validator.iter_errors(&answer).next()?;
    let pointer = error.instance_path().to_string();
    failed(OutputErrorType::SchemaMismatch, error.to_string(), Some(pointer))
}
