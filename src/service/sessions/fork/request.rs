//! The request for a fork.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use crate::domain::fork::MessageName;
use crate::service::error::{Error, FieldError};
use crate::service::session_settings::{
    MAX_METADATA, NOT_READABLE, is_readable_object, title_problem,
};

/// The settings of a fork. All members are optional.
#[derive(Debug, Default, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateFork {
    /// The last message of the fork's history, by number or id. When neither this nor `before` is
    /// given, the newest message of the source.
    pub(super) after: Option<MessageName>,
    /// The first message that the fork leaves out, by number or id. It excludes `after`.
    pub(super) before: Option<MessageName>,
    /// A title for display, at most 500 characters. When absent, the title of the source.
    #[schema(max_length = 500)]
    pub(super) title: Option<String>,
    /// An object that is stored with the fork unchanged, at most 16 kB. When absent, the metadata
    /// of the source.
    #[schema(value_type = Option<Object>)]
    pub(super) metadata: Option<Box<RawValue>>,
    /// Copies the files of the source if it has a directory of its own. When absent, true.
    files: Option<bool>,
}

impl CreateFork {
    /// Checks the members of the request.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut errors = Vec::new();
        if self.after.is_some() && self.before.is_some() {
            errors.push(FieldError::new("/before", "cannot be combined with /after"));
        }
        if let Some(problem) = self.title.as_deref().and_then(title_problem) {
            errors.push(FieldError::new("/title", problem));
        }
        if let Some(metadata) = &self.metadata {
            if !is_readable_object(metadata.get()) {
                errors.push(FieldError::new("/metadata", NOT_READABLE));
            } else if metadata.get().len() > MAX_METADATA {
                errors.push(FieldError::new("/metadata", "is larger than 16 kB"));
            }
        }
        Error::if_any(errors)
    }

    /// A fork that leaves out this message and all later ones, or nothing.
    pub(crate) fn before(message: Option<String>) -> Self {
        Self { before: message.map(MessageName::Id), ..Self::default() }
    }

    /// Returns true if the fork gets a copy of the source's files.
    pub(super) fn has_files(&self) -> bool {
        self.files.unwrap_or(true)
    }

    /// A hash by which a repeated request is recognized.
    pub(super) fn fingerprint(&self) -> Result<Vec<u8>, Error> {
        let json = serde_json::to_vec(self).map_err(Error::internal)?;
        Ok(Sha256::digest(json).to_vec())
    }
}
