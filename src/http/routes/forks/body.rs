//! What a fork is to be.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::domain::fork::MessageName;
use crate::http::error::{ApiError, FieldError};
use crate::http::routes::session_checks::{
    MAX_METADATA, NOT_READABLE, is_readable_object, title_problem,
};

/// What a fork is to be. All of it is optional.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CreateFork {
    /// The last message that the fork has, by its number or its id. The newest one if neither this
    /// nor `before` is given.
    pub(super) after: Option<MessageName>,
    /// The first message that the fork does not have, in place of `after`.
    pub(super) before: Option<MessageName>,
    /// A name for people, at most 500 characters; the source's where absent.
    #[schema(max_length = 500)]
    pub(super) title: Option<String>,
    /// Whatever the client wants to keep with the fork, at most 16 kB; the source's where absent.
    #[schema(value_type = Option<Object>)]
    pub(super) metadata: Option<Box<RawValue>>,
    /// Whether the fork has the files of the source, if that has a folder of its own; true where
    /// absent.
    files: Option<bool>,
}

impl CreateFork {
    pub(super) fn check(&self) -> Result<(), ApiError> {
        let mut errors = Vec::new();
        let mut refuse = |pointer: &str, message: &str| {
            errors.push(FieldError { pointer: pointer.to_owned(), message: message.to_owned() });
        };
        if self.after.is_some() && self.before.is_some() {
            refuse("/before", "does not go together with /after");
        }
        if let Some(problem) = self.title.as_deref().and_then(title_problem) {
            refuse("/title", problem);
        }
        if let Some(metadata) = &self.metadata {
            if !is_readable_object(metadata.get()) {
                refuse("/metadata", NOT_READABLE);
            } else if metadata.get().len() > MAX_METADATA {
                refuse("/metadata", "is larger than 16 kB");
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(ApiError::Validation(errors)) }
    }

    /// Whether the fork has the files of its source.
    pub(super) fn has_files(&self) -> bool {
        self.files.unwrap_or(true)
    }

    /// What makes two requests the same request.
    pub(super) fn fingerprint(&self) -> Result<Vec<u8>, ApiError> {
        let json =
            serde_json::to_vec(self).map_err(|error| ApiError::Internal(error.to_string()))?;
        Ok(Sha256::digest(json).to_vec())
    }
}
