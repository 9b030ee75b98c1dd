//! The leases that this worker lost although it is alive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::claim::Fence;

/// The leases that this worker lost although it is alive. The heartbeat reports them, because the
/// database is unavailable when most of them are lost.
#[derive(Debug, Clone, Default)]
pub(in crate::worker) struct LostLeases(Arc<Mutex<Vec<Fence>>>);

impl LostLeases {
    /// Adds a lease.
    pub(in crate::worker) fn add(&self, fence: Fence) {
        self.leases().push(fence);
    }

    /// The leases that have not been reported.
    pub(super) fn list(&self) -> Vec<Fence> {
        self.leases().clone()
    }

    /// Removes reported leases.
    pub(super) fn remove(&self, reported: &[Fence]) {
        self.leases().retain(|fence| !reported.contains(fence));
    }

    fn leases(&self) -> MutexGuard<'_, Vec<Fence>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
