//! Changes that complete even when their client disconnects.
//!
//! A handler is dropped with its connection, at any point where it waits. A change that has begun in
//! the database must complete: its events must reach the readers and its work the worker. Requests
//! with unsafe methods therefore run in tasks of their own.

use std::future::pending;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::http::error::ApiError;
use crate::http::server::forwarded::carry;

tokio::task_local! {
    static DISCONNECTED: CancellationToken;
}

/// Runs requests with unsafe methods in a task that outlives the connection.
pub(in crate::http) async fn layer(
    State(tasks): State<TaskTracker>,
    request: Request,
    next: Next,
) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let disconnected = CancellationToken::new();
    let _guard = disconnected.clone().drop_guard();
    match tasks
        .spawn(DISCONNECTED.scope(disconnected, carry(next.run(request))).in_current_span())
        .await
    {
        Ok(response) => response,
        Err(error) => ApiError::Internal(format!("handler task failed: {error}")).into_response(),
    }
}

/// Returns when the client of the current request has disconnected. Work that is done only for the
/// response can stop then.
pub(in crate::http) async fn disconnected() {
    match DISCONNECTED.try_with(CancellationToken::clone) {
        Ok(disconnected) => disconnected.cancelled().await,
        Err(_) => pending().await,
    }
}
