//! The creator of a session.

use std::sync::Arc;

use super::error::Error;
use super::session_settings::CreateSession;
use crate::domain::ids::{KeyId, TenantId};
use crate::domain::session::Settings;

/// The creator of a session, as the credential of its request identifies it.
#[derive(Debug, Clone)]
pub(crate) struct Creator {
    /// The tenant.
    pub(crate) tenant: TenantId,
    /// The API key of the request, if it has one.
    pub(crate) key: Option<KeyId>,
    /// The subject of the token of the request, if it has one.
    pub(crate) subject: Option<Arc<str>>,
}

impl Creator {
    /// Refuses a name of the user that differs from the subject of the token.
    pub(super) fn check(&self, request: &CreateSession) -> Result<(), Error> {
        if self.subject.is_some() && request.user.is_some() {
            let message = "cannot be set with a token, whose subject is the user";
            return Err(Error::field("/user", message));
        }
        Ok(())
    }

    /// Pins the creator in the settings of its session.
    pub(super) fn pin(&self, settings: &mut Settings) {
        settings.created_by = self.key.map(KeyId::as_uuid);
        if let Some(subject) = &self.subject {
            settings.user = Some(subject.to_string());
        }
    }
}
