//! Verification of a session.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::domain::ids::SessionId;
use crate::domain::verification::{Checked, Finding, Verification};
use crate::http::auth::Caller;
use crate::http::error::{ApiError, Problem};
use crate::http::extract::path::SessionPath;
use crate::http::state::Api;
use crate::service::verification::verify_session as verify;

/// The result of a verification.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct VerificationResource {
    /// `verification`.
    r#type: &'static str,
    /// The session.
    #[schema(value_type = String)]
    session_id: SessionId,
    /// True if there are no findings.
    is_valid: bool,
    /// The violated invariants.
    findings: Vec<Finding>,
    /// The number of rows that were checked.
    checked: Checked,
}

impl From<Verification> for VerificationResource {
    fn from(verification: Verification) -> Self {
        let Verification { session_id, findings, checked } = verification;
        let is_valid = findings.is_empty();
        Self { r#type: "verification", session_id, is_valid, findings, checked }
    }
}

/// Checks all invariants of a session, as it is at the time of the request.
///
/// The unfinished state of an active run, such as a call without a result, is not a finding. The
/// duration grows with the history.
#[utoipa::path(
    get, path = "/sessions/{session_id}/verify", operation_id = "verify_session", tag = "sessions",
    params(("session_id" = String, Path, description = "The session.")),
    responses(
        (status = 200, description = "The findings, if there are any.", body = VerificationResource),
        (status = 404, description = "`session_not_found`", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "`database_unavailable`, `too_many_verifications`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn verify_session(
    State(api): State<Arc<Api>>,
    caller: Caller,
    path: SessionPath,
) -> Result<Json<VerificationResource>, ApiError> {
    let SessionPath(session_id) = path;
    let verification = verify(&api.service, caller.tenant, session_id).await?;
    Ok(Json(verification.into()))
}
