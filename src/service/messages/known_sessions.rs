//! The sessions of which this process knows enough to start the next run before its message is accepted.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::claim::Claimed;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::session::{Session, Settings};

/// Maximum size of the settings of all known sessions together, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Maximum number of tenants that are known to have no budget.
const MAX_TENANTS: usize = 4096;
/// The size of a session without its texts, in bytes.
const BASE_BYTES: usize = 1024;

/// What does not change in the life of a session.
#[derive(Debug, Clone)]
pub(super) struct KnownSession {
    tenant: TenantId,
    pub(super) settings: Settings,
    pub(super) workspace: Option<String>,
    pub(super) is_fork: bool,
    /// The session has had no message yet.
    pub(super) is_unused: bool,
}

/// The sessions that this process has created or has accepted messages for.
#[derive(Debug, Default)]
pub(in crate::service) struct KnownSessions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<SessionId, (u64, KnownSession)>,
    /// The tenants that had no budget when their last message was accepted.
    unbudgeted: HashSet<TenantId>,
    bytes: usize,
    clock: u64,
}

impl KnownSessions {
    /// Adds a session that was created.
    pub(in crate::service) fn add_created(&self, tenant: TenantId, session: &Session) {
        if session.parent.is_some() || session.forked_from.is_some() {
            return;
        }
        let (settings, workspace) = (session.settings.clone(), session.workspace.clone());
        let known = KnownSession { tenant, settings, workspace, is_fork: false, is_unused: true };
        self.state().insert(session.id, known);
    }

    /// Adds the session of a run that has started, and whether its tenant has a budget.
    pub(super) fn add_started(&self, tenant: TenantId, run: &Claimed) {
        let mut state = self.state();
        if run.is_budgeted {
            state.unbudgeted.remove(&tenant);
            return;
        }
        if state.unbudgeted.len() >= MAX_TENANTS {
            state.unbudgeted.clear();
        }
        state.unbudgeted.insert(tenant);
        if run.parent_session.is_some() || state.sessions.contains_key(&run.session_id) {
            return;
        }
        let (settings, workspace) = (run.settings.clone(), run.workspace.clone());
        let is_fork = run.is_fork;
        let known = KnownSession { tenant, settings, workspace, is_fork, is_unused: false };
        state.insert(run.session_id, known);
    }

    /// Forgets a session that was deleted.
    pub(in crate::service) fn remove(&self, session_id: SessionId) {
        self.state().remove(session_id);
    }

    /// The session, if it is known, belongs to the tenant, and neither has a budget. From now on it is
    /// not unused, in any case.
    pub(super) fn next_run(&self, tenant: TenantId, session_id: SessionId) -> Option<KnownSession> {
        let mut state = self.state();
        state.clock += 1;
        let clock = state.clock;
        let is_unbudgeted = state.unbudgeted.contains(&tenant);
        let known = state.sessions.get_mut(&session_id);
        let (used_at, known) = known.filter(|(_, known)| known.tenant == tenant)?;
        *used_at = clock;
        let is_unused = std::mem::take(&mut known.is_unused);
        let is_open = is_unbudgeted && known.settings.budget.is_open();
        is_open.then(|| KnownSession { is_unused, ..known.clone() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownSession {
    fn bytes(&self) -> usize {
        let settings = &self.settings;
        BASE_BYTES + settings.tools.get().len() + settings.system.json().get().len()
    }
}

impl State {
    fn insert(&mut self, session_id: SessionId, known: KnownSession) {
        self.remove(session_id);
        self.bytes += known.bytes();
        self.clock += 1;
        self.sessions.insert(session_id, (self.clock, known));
        self.evict();
    }

    fn remove(&mut self, session_id: SessionId) {
        if let Some((_, known)) = self.sessions.remove(&session_id) {
            self.bytes -= known.bytes();
        }
    }

    /// Drops the older half at once, so that a full cache is not sorted at every message.
    fn evict(&mut self) {
        if self.bytes <= MAX_BYTES {
            return;
        }
        let mut ages: Vec<u64> = self.sessions.values().map(|(used_at, _)| *used_at).collect();
        ages.sort_unstable();
        let middle = ages.get(ages.len() / 2).copied().unwrap_or(0);
        self.sessions.retain(|_, (used_at, _)| *used_at > middle);
        self.bytes = self.sessions.values().map(|(_, known)| known.bytes()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(tenant: TenantId) -> KnownSession {
        let settings = Settings::default();
        KnownSession { tenant, settings, workspace: None, is_fork: false, is_unused: true }
    }

    fn sessions_of(tenant: TenantId, sessions: &[SessionId]) -> KnownSessions {
        let all = KnownSessions::default();
        all.state().unbudgeted.insert(tenant);
        for session_id in sessions {
            all.state().insert(*session_id, known(tenant));
        }
        all
    }

    #[test]
    fn a_session_is_unused_once_and_known_to_its_tenant_only() {
        let (tenant, other) = (TenantId::DEFAULT, TenantId::from(uuid::Uuid::now_v7()));
        let session = SessionId::new();
        let all = sessions_of(tenant, &[session]);
        all.state().unbudgeted.insert(other);
        assert!(all.next_run(other, session).is_none());
        let is_unused = || all.next_run(tenant, session).map(|known| known.is_unused);
        assert_eq!([is_unused(), is_unused()], [Some(true), Some(false)]);
        all.remove(session);
        assert_eq!(is_unused(), None);
        assert_eq!(all.state().bytes, 0);
    }

    #[test]
    fn a_full_cache_drops_the_oldest_sessions() {
        let tenant = TenantId::DEFAULT;
        let size = known(tenant).bytes();
        let ids: Vec<SessionId> = (0..MAX_BYTES / size + 2).map(|_| SessionId::new()).collect();
        let all = sessions_of(tenant, &ids);
        assert!(all.state().bytes <= MAX_BYTES);
        assert!(all.next_run(tenant, ids[0]).is_none());
        assert!(all.next_run(tenant, ids[ids.len() - 1]).is_some());
    }
}
