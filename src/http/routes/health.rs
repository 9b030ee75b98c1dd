//! Liveness, readiness, metrics and the OpenAPI document.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use utoipa::openapi::Server;

use crate::http::error::{ApiError, Problem};
use crate::http::extract::conditions::tagged_json;
use crate::http::openapi::document;
use crate::http::server::forwarded::public;
use crate::http::server::readiness::Checks;
use crate::http::server::readiness::Health as HealthState;
use crate::metrics;

/// The liveness of the process.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Health {
    /// `ok`.
    status: &'static str,
}

/// The readiness of the service, check by check.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Readiness {
    /// True if all checks passed.
    is_ready: bool,
    /// The checks. The check of the database may be one second old.
    checks: Checks,
}

/// Reports that the process is alive, without any check.
#[utoipa::path(
    get, path = "/healthz", operation_id = "get_health", tag = "operations",
    responses((status = 200, description = "The process is alive.", body = Health))
)]
pub(in crate::http) async fn get_health() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Reports whether the service can serve requests.
#[utoipa::path(
    get, path = "/readyz", operation_id = "get_readiness", tag = "operations",
    responses(
        (status = 200, description = "All checks passed.", body = Readiness),
        (status = 503, description = "A check failed.", body = Readiness),
    )
)]
pub(in crate::http) async fn get_readiness(
    State(state): State<Arc<HealthState>>,
) -> (StatusCode, Json<Readiness>) {
    let checks = Checks::run(&state).await;
    let is_ready = checks.are_passed();
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(Readiness { is_ready, checks }))
}

/// Returns metrics in the text format of Prometheus.
///
/// A service with API keys requires the key of the operator in `TWOSTEP_METRICS_KEY`; an API key
/// gives no access, because the metrics are about all tenants.
#[utoipa::path(
    get, path = "/metrics", operation_id = "get_metrics", tag = "operations",
    responses(
        (status = 200, description = "The metrics.", body = String,
         content_type = "application/openmetrics-text"),
        (status = 401, description = "`unauthenticated`: the key for metrics is missing.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "`route_not_found`: metrics have their own address.", body = Problem, content_type = "application/problem+json"),
        (status = 500, description = "`internal`", body = Problem, content_type = "application/problem+json"),
    )
)]
pub(in crate::http) async fn get_metrics(
    State(state): State<Arc<HealthState>>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ApiError> {
    state.metrics_access.check(&headers)?;
    let text = state.metrics.encode().map_err(|error| ApiError::Internal(error.to_string()))?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text))
}

/// Returns this OpenAPI document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "get_openapi", tag = "operations",
    responses(
        (status = 200, description = "The OpenAPI document.", body = Object,
         headers(("etag" = String, description = "Identifies the content of the document."))),
        (status = 304, description = "The document is the same."),
    )
)]
pub(in crate::http) async fn get_openapi() -> Response {
    let mut document = document();
    let base = public("");
    if !base.is_empty() {
        document.servers = Some(vec![Server::new(base)]);
    }
    ([(CACHE_CONTROL, "no-cache")], tagged_json(&document)).into_response()
}
