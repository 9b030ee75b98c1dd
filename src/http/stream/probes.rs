//! The results of stream probes, which test whether streams reach a client unbuffered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::domain::ids::{ProbeId, TenantId};

/// The maximum number of probes kept, of all tenants.
const MAX_PROBES: usize = 256;

/// The most recent probes of this process.
#[derive(Debug, Default)]
pub(in crate::http) struct Probes(Mutex<VecDeque<Probe>>);

/// A stream that was opened as a test.
#[derive(Debug, Clone, Copy)]
struct Probe {
    id: ProbeId,
    tenant: TenantId,
    state: ProbeState,
}

/// The state of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum ProbeState {
    /// The stream is open.
    Open,
    /// The whole stream was sent.
    Finished,
    /// The client disconnected before the end.
    Left,
}

impl Probes {
    /// Registers a new probe.
    pub(in crate::http) fn begin(self: &Arc<Self>, tenant: TenantId) -> Listener {
        let id = ProbeId::new();
        let mut probes = self.lock();
        if probes.len() == MAX_PROBES {
            probes.pop_front();
        }
        probes.push_back(Probe { id, tenant, state: ProbeState::Open });
        Listener { id, probes: Arc::clone(self), state: ProbeState::Left }
    }

    /// The probes of a tenant, the newest first.
    pub(in crate::http) fn list(&self, tenant: TenantId) -> Vec<(ProbeId, ProbeState)> {
        let probes = self.lock();
        let own = probes.iter().rev().filter(|probe| probe.tenant == tenant);
        own.map(|probe| (probe.id, probe.state)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Probe>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open probe. Dropping it records the final state.
#[derive(Debug)]
pub(in crate::http) struct Listener {
    pub(in crate::http) id: ProbeId,
    probes: Arc<Probes>,
    /// The state to record on drop.
    state: ProbeState,
}

impl Listener {
    /// Records that the whole stream was sent.
    pub(in crate::http) fn finish(&mut self) {
        self.state = ProbeState::Finished;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut probes = self.probes.lock();
        if let Some(probe) = probes.iter_mut().find(|probe| probe.id == self.id) {
            probe.state = self.state;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_sees_the_states_of_its_own_probes() {
        let probes = Arc::new(Probes::default());
        let (one, other) = (TenantId::new(), TenantId::new());
        let open = probes.begin(one);
        let mut finished = probes.begin(one);
        let left = probes.begin(one);
        let foreign = probes.begin(other);
        finished.finish();
        let ids = [left.id, finished.id, open.id];
        drop((left, finished));
        let states = [ProbeState::Left, ProbeState::Finished, ProbeState::Open];
        assert_eq!(probes.list(one), ids.into_iter().zip(states).collect::<Vec<_>>());
        assert_eq!(probes.list(other), [(foreign.id, ProbeState::Open)]);
    }

    #[test]
    fn the_oldest_probes_are_dropped() {
        let probes = Arc::new(Probes::default());
        let tenant = TenantId::new();
        let all: Vec<Listener> = (0..=MAX_PROBES).map(|_| probes.begin(tenant)).collect();
        assert_eq!(probes.list(tenant).len(), MAX_PROBES);
        drop(all);
        let states = probes.list(tenant).into_iter().map(|(_, state)| state);
        assert!(states.into_iter().all(|state| state == ProbeState::Left));
    }
}
