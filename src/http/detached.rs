//! Posts and other changes that go on when their client leaves.
//!
//! A handler is dropped with its connection, at whatever point it waits. What a change has begun to
//! do in the database must be carried to its end: told to readers, handed to the worker.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tracing::Instrument as _;

use super::Api;
use super::error::ApiError;
use super::forwarded::carry;

pub(super) async fn layer(State(api): State<Api>, request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    match api.posts.spawn(carry(next.run(request)).in_current_span()).await {
        Ok(response) => response,
        Err(error) => ApiError::Internal(format!("a handler stopped: {error}")).into_response(),
    }
}
