//! Whether the process lives, and whether it can serve.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde::Serialize;
use utoipa::openapi::Server;

use crate::domain::circuit::Circuit;
use crate::http::error::ApiError;
use crate::http::forwarded::public;
use crate::http::{Health as HealthState, document};
use crate::metrics;
use crate::tools::sandbox::Level;

/// Whether the process lives.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Health {
    /// `ok`.
    status: &'static str,
}

/// Whether the service can serve, check by check.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub(in crate::http) struct Readiness {
    /// Whether all checks passed.
    is_ready: bool,
    /// Whether the database answers.
    database: bool,
    /// Whether the service is not about to stop.
    accepting: bool,
    /// Whether the model is asked; absent where no worker runs. While it is not, runs wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<Circuit>,
    /// How commands of Bash are confined; absent if there is no Bash here.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<Level>,
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
        (status = 503, description = "It cannot, and why.", body = Readiness),
    )
)]
pub(in crate::http) async fn get_readiness(
    State(state): State<HealthState>,
) -> (StatusCode, Json<Readiness>) {
    let database = match state.pool.acquire().await {
        Ok(mut conn) => {
            let answers = sqlx::query("SELECT 1").execute(&mut *conn).await.is_ok();
            if answers {
                conn.give_back();
            }
            answers
        }
        Err(_) => false,
    };
    let accepting = !state.draining.is_cancelled();
    let is_ready = database && accepting;
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let (model, sandbox) = (state.metrics.circuit(), state.sandbox);
    (status, Json(Readiness { is_ready, database, accepting, model, sandbox }))
}

/// Figures in the text format that Prometheus reads.
#[utoipa::path(
    get, path = "/metrics", operation_id = "get_metrics", tag = "operations",
    responses((
        status = 200, description = "The figures.", body = String,
        content_type = "application/openmetrics-text",
    ))
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
