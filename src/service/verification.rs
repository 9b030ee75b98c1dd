//! Verification of the invariants of a session.

use super::error::Error;
use super::state::Service;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::verification::Verification;
use crate::store::verify::session;

/// Checks the invariants of a session as it is at this moment.
pub(crate) async fn verify_session(
    service: &Service,
    tenant: TenantId,
    session_id: SessionId,
) -> Result<Verification, Error> {
    let permit = service.verifications.acquire().await;
    let _permit = permit.ok_or(Error::TooManyVerifications)?;
    // Not a connection of the tenant: a row of another tenant is among the possible findings.
    let verification = service
        .admission_pool
        .with(async |conn| session(conn, Some(tenant), session_id).await)
        .await?;
    verification.ok_or_else(|| Error::SessionNotFound(session_id.to_string()))
}
