//! Groups of tenants: a statement makes the writes of one tenant, on a connection that sees only this
//! tenant's rows. Statements of different tenants run at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{GroupCommit, GroupWrite, Grouped};
use crate::domain::ids::TenantId;
use crate::store::StoreError;
use crate::store::connections::TenantConnections;

/// The groups of the tenants that write at the moment.
#[derive(Debug)]
pub struct TenantGroups<T: GroupWrite> {
    pool: TenantConnections,
    groups: Mutex<HashMap<TenantId, Arc<GroupCommit<T>>>>,
}

/// A group in use. It is removed when its last user leaves.
struct Entered<'a, T: GroupWrite> {
    groups: &'a TenantGroups<T>,
    tenant: TenantId,
    group: Arc<GroupCommit<T>>,
}

impl<T: GroupWrite> TenantGroups<T> {
    /// Makes writes on these connections.
    pub fn new(pool: TenantConnections) -> Self {
        Self { pool, groups: Mutex::default() }
    }

    /// Makes a write of a tenant, together with others of the same tenant if a statement is under way.
    pub async fn write(
        &self,
        tenant: TenantId,
        write: T,
    ) -> Result<Grouped<T::Written>, StoreError> {
        let entered = self.enter(tenant);
        entered.group.write(write).await
    }

    fn enter(&self, tenant: TenantId) -> Entered<'_, T> {
        let mut groups = self.groups();
        let group = groups
            .entry(tenant)
            .or_insert_with(|| Arc::new(GroupCommit::new(self.pool.scope(tenant))));
        Entered { groups: self, tenant, group: Arc::clone(group) }
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<TenantId, Arc<GroupCommit<T>>>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: GroupWrite> Drop for Entered<'_, T> {
    fn drop(&mut self) {
        let mut groups = self.groups.groups();
        // One reference is the map's, the other this user's.
        if Arc::strong_count(&self.group) == 2 {
            groups.remove(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests;
