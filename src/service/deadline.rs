//! The deadline for the database work of a request.
//!
//! If a connection to the database is lost without notice, a statement can wait for many minutes.

use std::time::Duration;

use tokio::time::timeout;

use super::error::Error;
use crate::store::StoreError;

/// Maximum duration of the database work of a request, after its body has been read.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Runs the database work of a request. Fails with [`StoreError::NoAnswer`] after the deadline.
pub(super) async fn in_time<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match timeout(DEADLINE, work).await {
        Ok(done) => done,
        Err(_) => Err(StoreError::NoAnswer.into()),
    }
}
