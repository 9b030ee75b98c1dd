//! Posts and other changes that go on when their client leaves.
//!
//! A handler is dropped with its connection, at whatever point it waits. What a change has begun to
//! do in the database must be carried to its end: told to readers, handed to the worker.

use std::future::pending;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::http::error::ApiError;
use crate::http::server::forwarded::carry;
use crate::http::state::Api;

tokio::task_local! {
    static LEFT: CancellationToken;
}

pub(in crate::http) async fn layer(
    State(api): State<Api>,
    request: Request,
    next: Next,
) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let left = CancellationToken::new();
    let _leaves = left.clone().drop_guard();
    match api.tasks.spawn(LEFT.scope(left, carry(next.run(request))).in_current_span()).await {
        Ok(response) => response,
        Err(error) => ApiError::Internal(format!("a handler stopped: {error}")).into_response(),
    }
}

/// Returns when nobody waits for the answer of a change any more. What is done only for the answer
/// may end then.
pub(in crate::http) async fn left() {
    match LEFT.try_with(CancellationToken::clone) {
        Ok(left) => left.cancelled().await,
        Err(_) => pending().await,
    }
}
