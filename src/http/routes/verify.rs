//! Whether a session is sound.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::domain::ids::SessionId;
use crate::domain::verification::{Checked, Finding, Verification};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::SessionPath;
use crate::http::state::Api;
use crate::service::Error;
use crate::store::verify::session;

/// What looking at a session gave.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct VerificationResource {
    /// `verification`.
    r#type: &'static str,
    /// The session.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// Whether nothing is wrong.
    is_valid: bool,
    /// What is wrong.
    findings: Vec<Finding>,
    /// How many rows were looked at.
    checked: Checked,
}

impl From<Verification> for VerificationResource {
    fn from(verification: Verification) -> Self {
        let Verification { session_id, findings, checked } = verification;
        let is_valid = findings.is_empty();
        Self { r#type: "verification", session_id, is_valid, findings, checked }
    }
}

/// Checks everything that must hold in a session, as it is at this moment.
///
/// What belongs to a live run, such as a call without its answer, is not a finding. The work
/// grows with the history.
#[utoipa::path(
    get, path = "/sessions/{session_id}/verify", operation_id = "verify_session", tag = "sessions",
    params(("session_id" = String, Path, description = "The session.")),
    responses(
        (status = 200, description = "What is wrong, if anything.", body = VerificationResource),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`database_unavailable`, `too_many_verifications`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn verify_session(
    State(api): State<Api>,
    caller: Caller,
    path: SessionPath,
) -> Result<Json<VerificationResource>, ApiError> {
    let SessionPath(session_id) = path;
    // The gate is for those who come in as well.
    let permit = api.service.verifications.acquire().await;
    let _permit = permit.ok_or(Error::TooManyVerifications)?;
    // A row that belongs to another tenant is among what it has to find.
    let mut conn = api.service.admission_pool.acquire().await?;
    let verification = session(&mut conn, Some(caller.tenant), session_id).await?;
    conn.give_back();
    let missing = || ApiError::Service(Error::SessionNotFound(session_id.to_string()));
    Ok(Json(verification.ok_or_else(missing)?.into()))
}
