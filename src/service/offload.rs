//! Long computations, moved off the threads that serve requests.

use tokio::task::spawn_blocking;

use super::error::Error;

/// Inputs up to this size are processed on the calling thread, in bytes.
const SMALL: usize = 1024 * 1024;

/// Runs `work`, whose duration depends on `bytes`; on a blocking thread if that is much.
pub(crate) async fn offload<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    if bytes <= SMALL {
        return Ok(work());
    }
    let done = spawn_blocking(work).await;
    done.map_err(|error| Error::Internal(format!("work on a large body failed: {error}")))
}
