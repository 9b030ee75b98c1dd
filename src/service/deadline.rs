//! The deadline for the database work of a request.
//!
//! If a connection to the database is lost without notice, a statement can wait for many minutes.

use std::time::Duration;

use crate::store::StoreError;
use crate::store::retry::within;

/// Maximum duration of the database work of a request, after its body has been read.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Runs the database work of a request. Fails with [`StoreError::NoAnswer`] after the deadline.
pub(crate) fn in_time<T, E: From<StoreError>>(
    work: impl Future<Output = Result<T, E>>,
) -> impl Future<Output = Result<T, E>> {
    within(DEADLINE, work)
}
