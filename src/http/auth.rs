//! Who calls.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::domain::ids::TenantId;

/// The caller of a request. Without keys everybody is the default tenant, which is why the
/// service then listens on the loopback interface only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    pub(super) tenant: TenantId,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(_parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self { tenant: TenantId::DEFAULT })
    }
}
