//! Whether the process lives, and whether it can serve.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use utoipa::openapi::Server;

use crate::http::error::{ApiError, Problem};
use crate::http::openapi::document;
use crate::http::server::forwarded::public;
use crate::http::server::readiness::Checks;
use crate::http::server::readiness::Health as HealthState;
use crate::metrics;

/// Whether the process lives.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Health {
    /// `ok`.
    status: &'static str,
}

/// Whether the service can serve, check by check.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Readiness {
    /// Whether no check failed.
    is_ready: bool,
    /// What was looked at. What was seen of the database may be a second old.
    checks: Checks,
}

/// Says that the process lives. It touches nothing else.
#[utoipa::path(
    get, path = "/healthz", operation_id = "get_health", tag = "operations",
    responses((status = 200, description = "It lives.", body = Health))
)]
pub(in crate::http) async fn get_health() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Says whether the service can serve.
#[utoipa::path(
    get, path = "/readyz", operation_id = "get_readiness", tag = "operations",
    responses(
        (status = 200, description = "It can.", body = Readiness),
        (status = 503, description = "It cannot: a check failed.", body = Readiness),
    )
)]
pub(in crate::http) async fn get_readiness(
    State(state): State<HealthState>,
) -> (StatusCode, Json<Readiness>) {
    let checks = Checks::run(&state).await;
    let is_ready = checks.are_passed();
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Readiness { is_ready, checks }))
}

/// Figures in the text format that Prometheus reads.
#[utoipa::path(
    get, path = "/metrics", operation_id = "get_metrics", tag = "operations",
    responses(
        (status = 200, description = "The figures.", body = String,
         content_type = "application/openmetrics-text"),
        (status = 404, description = "`route_not_found`: they have an address of their own.", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "`internal`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_metrics(
    State(state): State<HealthState>,
) -> Result<impl IntoResponse, ApiError> {
    let text = state.metrics.encode().map_err(|error| ApiError::Internal(error.to_string()))?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text))
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "get_openapi", tag = "operations",
    responses((status = 200, description = "The OpenAPI document.", body = Object))
)]
pub(in crate::http) async fn get_openapi() -> Json<utoipa::openapi::OpenApi> {
    let mut document = document();
    let base = public("");
    if !base.is_empty() {
        document.servers = Some(vec![Server::new(base)]);
    }
    Json(document)
}
