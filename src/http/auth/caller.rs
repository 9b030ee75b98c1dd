//! The caller of a request.

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::domain::api_key::Scope;
use crate::domain::ids::TenantId;
use crate::domain::pass::{Holder, Pass};
use crate::http::error::ApiError;

/// The header that SDKs use in place of `Authorization`.
pub(super) const API_KEY: &str = "x-api-key";

/// The caller of a request.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct Caller {
    /// Whose sessions these are.
    pub(in crate::http) tenant: TenantId,
    /// The scope of the key or token.
    pub(super) scope: Scope,
    /// Their key or token, if they were asked for one.
    pub(in crate::http) pass: Option<Pass>,
}

impl Caller {
    /// Without keys everybody is the default tenant, and may do everything.
    pub(super) const ANYBODY: Self =
        Self { tenant: TenantId::DEFAULT, scope: Scope::Write, pass: None };

    /// For whom limits count; none: for all who need no key together.
    pub(in crate::http) fn holder(self) -> Option<Holder> {
        self.pass.map(Pass::holder)
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        // A route that is not behind the layer lets nobody in.
        parts.extensions.get().copied().ok_or(ApiError::Unauthenticated)
    }
}
