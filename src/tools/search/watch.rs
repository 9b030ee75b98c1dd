//! Whether anybody still waits for a search.

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::tools::ToolError;

/// The stop of one search. It runs on threads of its own, which nobody can abort: they ask.
#[derive(Debug, Clone)]
pub(crate) struct Watch(CancellationToken);

impl Watch {
    /// A watch that ends with the call, and the guard that ends it when the call is dropped.
    pub(crate) fn of(stop: &CancellationToken) -> (Self, DropGuard) {
        let token = stop.child_token();
        (Self(token.clone()), token.drop_guard())
    }

    /// Whether the search is to be given up.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Fails when the search is to be given up.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.is_over() {
            return Err(ToolError::Failed("the search was given up".to_owned()));
        }
        Ok(())
    }
}
