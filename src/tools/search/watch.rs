//! Cancellation of a search.

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::tools::error::ToolError;

/// The cancellation flag of one search. The search runs on blocking threads, which cannot be
/// aborted, so the threads check the flag.
#[derive(Debug, Clone)]
pub(crate) struct Watch(CancellationToken);

impl Watch {
    /// Creates a flag that is set with `stop`, and a guard that sets it when the call is dropped.
    pub(crate) fn of(stop: &CancellationToken) -> (Self, DropGuard) {
        let token = stop.child_token();
        (Self(token.clone()), token.drop_guard())
    }

    /// Returns whether the search is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Fails if the search is cancelled.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.is_cancelled() {
            return Err(ToolError::Failed("the search was cancelled".to_owned()));
        }
        Ok(())
    }
}
