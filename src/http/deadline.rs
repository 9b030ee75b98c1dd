//! An answer in time, also when the database gives none: a server behind a connection that was
//! cut without a word is silent for many minutes.

use std::time::Duration;

use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use tokio::time::timeout;

use super::error::ApiError;
use crate::store::StoreError;

/// What the work for a request may take, once its body has been read.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Does the work for a request, which must be short.
pub(super) async fn in_time<T>(
    work: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    match timeout(ANSWER_WITHIN, work).await {
        Ok(done) => done,
        Err(_) => Err(StoreError::NoAnswer.into()),
    }
}

/// For requests without a body. Reading a body has a deadline of its own, and so its handlers
/// begin to count behind it.
pub(super) async fn layer(request: Request, next: Next) -> Response {
    if !request.body().is_end_stream() {
        return next.run(request).await;
    }
    match in_time(async { Ok(next.run(request).await) }).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    }
}
