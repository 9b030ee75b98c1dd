//! The caller of a request.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::domain::api_key::Scope;
use crate::domain::browser_token::{BrowserGrant, BrowserScope, BrowserTarget};
use crate::domain::ids::TenantId;
use crate::domain::principal::{LimitHolder, Principal};
use crate::domain::session::Session;
use crate::http::error::ApiError;
use crate::service::creator::Creator;

/// The header that SDKs use in place of `Authorization`.
pub(super) const API_KEY: &str = "x-api-key";

/// The caller of a request.
#[derive(Debug, Clone)]
pub(in crate::http) struct Caller {
    /// The tenant whose data the caller sees.
    pub(in crate::http) tenant: TenantId,
    /// The scope of the key or token.
    pub(super) scope: Scope,
    /// The key or token, if the service requires one.
    pub(in crate::http) principal: Option<Principal>,
    /// The subject of the token, if the request has one.
    pub(super) subject: Option<Arc<str>>,
    /// The permissions of the browser token, if the request has one.
    pub(super) browser: Option<Arc<BrowserGrant>>,
}

impl Caller {
    /// The caller of a service without keys: the default tenant with every scope.
    pub(super) const ANYBODY: Self = Self {
        tenant: TenantId::DEFAULT,
        scope: Scope::Write,
        principal: None,
        subject: None,
        browser: None,
    };

    /// The key or token that limits apply to. Callers without one share their limits.
    pub(in crate::http) fn holder(&self) -> Option<LimitHolder> {
        self.principal.map(Principal::holder)
    }

    /// Refuses a browser token without a scope; other callers have every permission of their tenant.
    pub(in crate::http) fn require(&self, scope: BrowserScope) -> Result<(), ApiError> {
        match &self.browser {
            Some(grant) if !grant.allows(scope) => Err(ApiError::BrowserTokenLacks(scope)),
            _ => Ok(()),
        }
    }

    /// The user whose sessions the caller may see, if a browser token limits it to one.
    pub(in crate::http) fn only_user(&self) -> Option<&str> {
        match &self.browser.as_deref()?.target {
            BrowserTarget::User(user) => Some(user),
            BrowserTarget::Session(_) => None,
        }
    }

    /// Returns true unless the caller has a browser token that is not valid for this session. Sessions
    /// of sub-agents have no external id, so they are not found by one.
    pub(in crate::http) fn may_use(&self, session: &Session) -> bool {
        match self.browser.as_deref().map(|grant| &grant.target) {
            None => true,
            Some(BrowserTarget::Session(id)) => session.id == *id,
            Some(BrowserTarget::User(user)) => {
                session.parent.is_none() && session.settings.user.as_ref() == Some(user)
            }
        }
    }

    /// Returns true if the caller has a browser token.
    pub(in crate::http) const fn is_browser(&self) -> bool {
        self.browser.is_some()
    }

    /// The caller as the creator of a session.
    pub(in crate::http) fn creator(&self) -> Creator {
        let key = match self.principal {
            Some(Principal::Key(id)) => Some(id),
            Some(Principal::Token(..) | Principal::BrowserToken(_)) | None => None,
        };
        Creator { tenant: self.tenant, key, subject: self.subject.clone() }
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        // A route without the authentication layer refuses all requests.
        parts.extensions.get().cloned().ok_or(ApiError::Unauthenticated)
    }
}
