//! The sessions of which this process knows enough to start the next run before its message is accepted,
//! and to post a message by the id that a client has given the session.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as Gate, OwnedMutexGuard};

use crate::domain::claim::Claimed;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::model_settings::ModelSettings;
use crate::domain::session::{Session, Settings};
use crate::store::accept::NewRun;

/// Maximum size of the settings of all known sessions together, in bytes.
const MAX_BYTES: usize = 16 << 20;
/// Maximum number of tenants that are known to have no budget.
const MAX_TENANTS: usize = 4096;
/// The size of a session without its texts, in bytes.
const BASE_BYTES: usize = 1024;

/// What this process knows of a session.
#[derive(Debug, Clone)]
pub(in crate::service) struct KnownSession {
    tenant: TenantId,
    external_id: Option<String>,
    /// The newest message, if this process has accepted it.
    newest: Option<AcceptedMessage>,
    pub(in crate::service) settings: Settings,
    pub(in crate::service) model_settings: Option<Box<ModelSettings>>,
    pub(in crate::service) workspace: Option<String>,
    pub(in crate::service) is_fork: bool,
    /// The session has had no message yet.
    pub(in crate::service) is_unused: bool,
    /// Held while a message is accepted whose run may have started: no other message may be accepted
    /// before it.
    gate: Arc<Gate<()>>,
}

/// A message that has started a run.
#[derive(Debug, Clone)]
struct AcceptedMessage {
    id: String,
    key: Option<String>,
}

/// A session that a client has named.
#[derive(Debug)]
pub(crate) struct KnownConversation {
    pub(crate) session_id: SessionId,
    /// The end user of the session.
    pub(crate) user: Option<String>,
    /// A fork also has messages that this process may not know.
    pub(crate) is_fork: bool,
    /// The id of the newest message.
    pub(crate) newest: Option<String>,
}

/// Keeps other messages of a session waiting until it is dropped.
#[derive(Debug)]
pub(in crate::service) struct AcceptGuard(
    #[expect(dead_code, reason = "dropped")] OwnedMutexGuard<()>,
);

/// The sessions that this process has created or has accepted messages for.
#[derive(Debug, Default)]
pub(in crate::service) struct KnownSessions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    sessions: HashMap<SessionId, (u64, KnownSession)>,
    by_external_id: HashMap<(TenantId, String), SessionId>,
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
        let known = KnownSession {
            tenant,
            external_id: session.external_id.clone(),
            newest: None,
            settings,
            // A client has changed nothing yet.
            model_settings: None,
            workspace,
            is_fork: false,
            is_unused: true,
            gate: Arc::default(),
        };
        self.state().insert(session.id, known);
    }

    /// Adds the session of a run that has started, and whether its tenant has a budget.
    pub(in crate::service) fn add_started(&self, new: &NewRun<'_>, run: &Claimed) {
        let tenant = new.tenant;
        let newest = AcceptedMessage {
            id: new.message_id.to_owned(),
            key: new.idempotency_key.map(Into::into),
        };
        let mut state = self.state();
        state.set_budgeted(tenant, run.is_budgeted);
        if run.parent_session.is_some() {
            return;
        }
        if let Some((_, known)) = state.sessions.get_mut(&run.session_id) {
            known.newest = Some(newest);
            if known.model_settings != run.model_settings {
                known.settings.clone_from(&run.settings);
                known.model_settings.clone_from(&run.model_settings);
            }
            return;
        }
        let (settings, workspace) = (run.settings.clone(), run.workspace.clone());
        let known = KnownSession {
            tenant,
            external_id: None,
            newest: Some(newest),
            settings,
            model_settings: run.model_settings.clone(),
            workspace,
            is_fork: run.is_fork,
            is_unused: false,
            gate: Arc::default(),
        };
        state.insert(run.session_id, known);
    }

    /// Records the id that a client has given a session.
    pub(in crate::service) fn set_external_id(
        &self,
        tenant: TenantId,
        session_id: SessionId,
        external_id: &str,
    ) {
        let mut state = self.state();
        let Some((_, known)) = state.sessions.get_mut(&session_id) else { return };
        if known.tenant == tenant && known.external_id.is_none() {
            known.external_id = Some(external_id.to_owned());
            state.by_external_id.insert((tenant, external_id.to_owned()), session_id);
        }
    }

    /// The session with this id of a client, if it is known.
    pub(in crate::service) fn find(
        &self,
        tenant: TenantId,
        external_id: &str,
    ) -> Option<KnownConversation> {
        let state = self.state();
        let session_id = *state.by_external_id.get(&(tenant, external_id.to_owned()))?;
        let (_, known) = state.sessions.get(&session_id)?;
        Some(KnownConversation {
            session_id,
            user: known.settings.user.clone(),
            is_fork: known.is_fork,
            newest: known.newest.as_ref().map(|message| message.id.clone()),
        })
    }

    /// True if this process knows the session, and that it has this model.
    pub(in crate::service) fn has_model(&self, session_id: SessionId, model: &str) -> bool {
        self.state()
            .sessions
            .get(&session_id)
            .is_some_and(|(_, known)| known.settings.model == model)
    }

    /// Forgets a session that has changed or was deleted.
    pub(in crate::service) fn remove(&self, session_id: SessionId) {
        self.state().remove(session_id);
    }

    /// Waits until no message that may have started its run is being accepted by the session, and keeps
    /// others waiting until the guard is dropped. None for a session that is not known.
    pub(in crate::service) async fn enter(&self, session_id: SessionId) -> Option<AcceptGuard> {
        let gate = {
            let state = self.state();
            let (_, known) = state.sessions.get(&session_id)?;
            Arc::clone(&known.gate)
        };
        Some(AcceptGuard(gate.lock_owned().await))
    }

    /// The session, if it is known, belongs to the tenant, neither has a budget, and its newest message
    /// is another one. From now on it is not unused, in any case.
    pub(in crate::service) fn next_run(&self, new: &NewRun<'_>) -> Option<KnownSession> {
        let NewRun { tenant, session_id, .. } = *new;
        let mut state = self.state();
        state.clock += 1;
        let clock = state.clock;
        let is_unbudgeted = state.unbudgeted.contains(&tenant);
        let known = state.sessions.get_mut(&session_id);
        let (used_at, known) = known.filter(|(_, known)| known.tenant == tenant)?;
        *used_at = clock;
        let is_unused = std::mem::take(&mut known.is_unused);
        let is_open = is_unbudgeted && known.settings.budget.is_open();
        let is_repeated = known.newest.as_ref().is_some_and(|newest| newest.is_of(new));
        (is_open && !is_repeated).then(|| KnownSession { is_unused, ..known.clone() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AcceptedMessage {
    /// True if a request sends this message again.
    fn is_of(&self, new: &NewRun<'_>) -> bool {
        let has_key = self.key.is_some() && self.key.as_deref() == new.idempotency_key;
        has_key || self.id == new.message_id
    }
}

impl KnownSession {
    fn bytes(&self) -> usize {
        let settings = &self.settings;
        BASE_BYTES + settings.tools.get().len() + settings.system.json().get().len()
    }
}

impl State {
    fn set_budgeted(&mut self, tenant: TenantId, is_budgeted: bool) {
        if is_budgeted {
            self.unbudgeted.remove(&tenant);
            return;
        }
        if self.unbudgeted.len() >= MAX_TENANTS {
            self.unbudgeted.clear();
        }
        self.unbudgeted.insert(tenant);
    }

    fn insert(&mut self, session_id: SessionId, known: KnownSession) {
        self.remove(session_id);
        self.bytes += known.bytes();
        self.clock += 1;
        if let Some(external_id) = &known.external_id {
            self.by_external_id.insert((known.tenant, external_id.clone()), session_id);
        }
        self.sessions.insert(session_id, (self.clock, known));
        self.evict();
    }

    fn remove(&mut self, session_id: SessionId) {
        let Some((_, known)) = self.sessions.remove(&session_id) else { return };
        self.bytes -= known.bytes();
        if let Some(external_id) = known.external_id {
            let name = (known.tenant, external_id);
            // A later session may have the name now.
            if self.by_external_id.get(&name) == Some(&session_id) {
                self.by_external_id.remove(&name);
            }
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
        self.by_external_id.retain(|_, session_id| self.sessions.contains_key(session_id));
        self.bytes = self.sessions.values().map(|(_, known)| known.bytes()).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::{EventBody, NewEvent};
    use crate::domain::ids::{EventId, RunId};
    use crate::domain::run_options::RunOptions;

    fn known(tenant: TenantId) -> KnownSession {
        KnownSession {
            tenant,
            external_id: None,
            newest: None,
            settings: Settings::default(),
            model_settings: None,
            workspace: None,
            is_fork: false,
            is_unused: true,
            gate: Arc::default(),
        }
    }

    /// The session for the next message with this id.
    fn next(
        all: &KnownSessions,
        tenant: TenantId,
        session_id: SessionId,
        message_id: &str,
    ) -> Option<KnownSession> {
        all.next_run(&NewRun {
            id: RunId::new(),
            tenant,
            session_id,
            message_id,
            input: "[]",
            options: &RunOptions::default(),
            idempotency_key: None,
            client_message_id: None,
            fingerprint: b"f",
            event: &NewEvent::new(&EventBody::StatusRunning { attempt: 1 }),
            request_event: EventId::new(),
            worker: None,
            may_wait: false,
            versions: None,
        })
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
        assert!(next(&all, other, session, "msg_1").is_none());
        let is_unused = || next(&all, tenant, session, "msg_1").map(|known| known.is_unused);
        assert_eq!([is_unused(), is_unused()], [Some(true), Some(false)]);
        all.remove(session);
        assert_eq!(is_unused(), None);
        assert_eq!(all.state().bytes, 0);
    }

    #[test]
    fn the_newest_message_does_not_start_a_run_again() {
        let (tenant, session) = (TenantId::DEFAULT, SessionId::new());
        let all = sessions_of(tenant, &[session]);
        let newest = Some(AcceptedMessage { id: "msg_1".to_owned(), key: None });
        all.state().insert(session, KnownSession { newest, ..known(tenant) });
        assert!(next(&all, tenant, session, "msg_1").is_none());
        assert!(next(&all, tenant, session, "msg_2").is_some());
    }

    #[test]
    fn a_name_belongs_to_the_session_that_had_it_last() {
        let tenant = TenantId::DEFAULT;
        let ids = [SessionId::new(), SessionId::new()];
        let all = sessions_of(tenant, &ids);
        all.set_external_id(tenant, ids[0], "chat");
        all.set_external_id(tenant, ids[1], "chat");
        all.remove(ids[0]);
        let found = || all.find(tenant, "chat").map(|it| it.session_id);
        assert_eq!(found(), Some(ids[1]));
        assert!(all.find(TenantId::from(uuid::Uuid::now_v7()), "chat").is_none());
        all.remove(ids[1]);
        assert_eq!(found(), None);
    }

    #[test]
    fn a_full_cache_drops_the_oldest_sessions() {
        let tenant = TenantId::DEFAULT;
        let size = known(tenant).bytes();
        let ids: Vec<SessionId> = (0..MAX_BYTES / size + 2).map(|_| SessionId::new()).collect();
        let all = sessions_of(tenant, &ids);
        assert!(all.state().bytes <= MAX_BYTES);
        assert!(next(&all, tenant, ids[0], "msg_1").is_none());
        assert!(next(&all, tenant, ids[ids.len() - 1], "msg_1").is_some());
    }
}
