//! Work that takes long, done beside the threads that serve requests.

use tokio::task::spawn_blocking;

use crate::http::error::ApiError;

/// What is small is read and checked at once, in bytes.
const SMALL: usize = 1024 * 1024;

/// Does work whose length goes by so many bytes.
pub(in crate::http) async fn offload<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    if bytes <= SMALL {
        return Ok(work());
    }
    let done = spawn_blocking(work).await;
    done.map_err(|error| ApiError::Internal(format!("work on a large body stopped: {error}")))
}
