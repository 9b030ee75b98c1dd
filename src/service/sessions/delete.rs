//! Deleting a session: its runs are cancelled, then its rows and its workspace are removed.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection, Postgres, Transaction};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::workspace_removal::WorkspaceRemoval;
use crate::bus::{Signal, Subscription};
use crate::domain::call_end::RunEnd;
use crate::domain::ids::{RunId, SessionId, TenantId};
use crate::service::cancel::StopRequest;
use crate::service::deadline::in_time;
use crate::service::error::Error;
use crate::service::state::Service;
use crate::service::transaction::end_transaction;
use crate::service::versions::check_version;
use crate::store::StoreError;
use crate::store::budgets::settle_spent;
use crate::store::folders::{database_id, list_gone};
use crate::store::forks::{list_ids, list_tree};
use crate::store::session_deletion::{
    DELETION_TIMEOUT, LockedSession, count_events, delete, fence_runs, lock, raise_timeouts,
};
use crate::tools::workspace::RemovalNote;

/// Maximum time for an active run to settle. After that, its worker is fenced and the session is
/// deleted.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval in which the runs are polled if no event arrives.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum time that the response waits for the removal of files.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of forks that a refusal names.
const MAX_LISTED_FORKS: i64 = 100;

/// A request to delete a session.
pub(crate) struct DeleteSession {
    pub(crate) tenant: TenantId,
    pub(crate) session_id: SessionId,
    /// True to delete its forks as well. If false, a session with forks is not deleted.
    pub(crate) with_forks: bool,
    /// The versions of which the session must have one; none for any.
    pub(crate) expected: Option<Vec<i64>>,
}

/// Deletes a session with those of its sub-agents, and with its forks if requested.
pub(crate) async fn delete_session(service: &Service, request: DeleteSession) -> Result<(), Error> {
    let session_id = request.session_id;
    let until = Instant::now() + SETTLE_TIMEOUT;
    let mut deletion = Deletion { service, request, until, events: 0 };
    deletion.events = deletion.count_events().await?;
    // Subscribed before the runs are cancelled, so that no end of a run is missed.
    let mut subscription = service.bus.subscribe(session_id);
    let deleted = loop {
        let DeletionAttempt { has_cancelled, deleted } = deletion.attempt().await?;
        if let Some(deleted) = deleted {
            break deleted;
        }
        if has_cancelled {
            // The cancellation itself changes the version.
            deletion.request.expected = None;
        }
        deletion.wait(&mut subscription).await;
    };
    let removed = deleted.remove_files();
    for id in &deleted.ids {
        service.known_sessions.remove(*id);
        service.bus.resync(*id);
    }
    service.bus.lists_changed();
    // A longer removal continues in the background, and logs its own failure.
    let _ = timeout(REMOVAL_TIMEOUT, removed).await;
    Ok(())
}

/// A deletion in progress.
struct Deletion<'a> {
    service: &'a Service,
    request: DeleteSession,
    /// The time until which active runs may settle.
    until: Instant,
    /// The approximate number of events to delete.
    events: i64,
}

/// The result of one attempt to delete the sessions.
struct DeletionAttempt {
    /// True if a run was asked to stop.
    has_cancelled: bool,
    /// The deleted sessions; none if the attempt has to be repeated.
    deleted: Option<Deleted>,
}

/// Sessions that have been deleted.
struct Deleted {
    ids: Vec<SessionId>,
    /// Their workspaces.
    removal: WorkspaceRemoval,
    /// True if a fenced worker may still write to the workspaces.
    has_fenced_workers: bool,
}

impl Deleted {
    fn remove_files(&self) -> JoinHandle<()> {
        if self.has_fenced_workers {
            self.removal.remove_and_keep_note()
        } else {
            self.removal.remove()
        }
    }
}

/// The state of an attempt before its commit.
struct Pending {
    stops: Vec<StopRequest>,
    /// None if a run or another session is still in the way.
    deleted: Option<Deleted>,
}

/// All sessions of a deletion, locked, and the requests to stop their runs.
struct Locked {
    stops: Vec<StopRequest>,
    sessions: Vec<LockedSession>,
}

impl Deletion<'_> {
    /// Asks all open runs to stop, and deletes the sessions if none is left.
    async fn attempt(&self) -> Result<DeletionAttempt, Error> {
        let permit = self.service.deletions.acquire(self.events).await;
        let _permit = permit.ok_or(Error::TooManyDeletions)?;
        let mut conn = self.service.pool.acquire_as(self.request.tenant).await?;
        let begun = in_time(async {
            let conn: &mut PgConnection = &mut conn;
            settle_spent(conn, self.request.tenant).await?;
            Ok::<_, Error>(conn.begin().await?)
        });
        let mut transaction = begun.await?;
        let (pending, is_usable) = match self.stop_and_delete(&mut transaction).await {
            Ok(pending) if pending.deleted.is_some() => {
                let is_usable = self.commit(transaction).await?;
                (Ok(pending), is_usable)
            }
            result => (in_time(end_transaction(transaction, result)).await?, true),
        };
        if is_usable {
            conn.give_back();
        }
        let Pending { stops, deleted } = pending?;
        let has_cancelled = !stops.is_empty();
        for stop in stops {
            stop.publish(self.service);
        }
        Ok(DeletionAttempt { has_cancelled, deleted })
    }

    async fn stop_and_delete(&self, conn: &mut PgConnection) -> Result<Pending, Error> {
        let Some(Locked { stops, sessions }) = in_time(self.lock_and_stop(conn)).await? else {
            return Ok(Pending { stops: Vec::new(), deleted: None });
        };
        let open: Vec<RunId> =
            stops.iter().filter(|stop| !stop.is_settled()).map(StopRequest::run_id).collect();
        let is_late = Instant::now() >= self.until;
        if !open.is_empty() && (!is_late || fence_runs(conn, &open).await? > 0) {
            return Ok(Pending { stops, deleted: None });
        }
        let removal = in_time(self.prepare_removal(conn, &sessions)).await?;
        let ids: Vec<SessionId> = sessions.iter().map(|session| session.id).collect();
        match timeout(DELETION_TIMEOUT, delete(conn, self.request.tenant, &ids)).await {
            Ok(deleted) => deleted?,
            Err(_) => return Err(StoreError::NoAnswer.into()),
        }
        let deleted = Deleted { ids, removal, has_fenced_workers: !open.is_empty() };
        Ok(Pending { stops, deleted: Some(deleted) })
    }

    /// Locks all sessions to delete, and asks their runs to stop. Returns none if the attempt has to
    /// be repeated.
    async fn lock_and_stop(&self, conn: &mut PgConnection) -> Result<Option<Locked>, Error> {
        let Some(sessions) = self.lock(conn).await? else { return Ok(None) };
        let mut stops = Vec::new();
        for LockedSession { id, open, .. } in &sessions {
            for run_id in open {
                let stop =
                    StopRequest::make(conn, self.request.tenant, *id, *run_id, RunEnd::Client);
                stops.push(stop.await?);
            }
        }
        Ok(Some(Locked { stops, sessions }))
    }

    /// Locks all sessions to delete. Returns none if a fork or a sub-agent was added in between,
    /// which has to be locked as well.
    async fn lock(&self, conn: &mut PgConnection) -> Result<Option<Vec<LockedSession>>, Error> {
        let DeleteSession { tenant, session_id, with_forks, expected } = &self.request;
        let ids = self.list_sessions(conn).await?;
        let sessions = lock(conn, *tenant, &ids).await?;
        let root = sessions.iter().find(|session| session.id == *session_id);
        let missing = || Error::SessionNotFound(session_id.to_string());
        check_version(expected.as_deref(), root.ok_or_else(missing)?.last_seq)?;
        if self.list_sessions(conn).await? != ids {
            return Ok(None);
        }
        if *with_forks {
            return Ok(Some(sessions));
        }
        let forks = list_ids(conn, &ids, MAX_LISTED_FORKS).await?;
        if forks.is_empty() { Ok(Some(sessions)) } else { Err(Error::SessionHasForks(forks)) }
    }

    /// Notes the workspaces of the sessions for removal.
    async fn prepare_removal(
        &self,
        conn: &mut PgConnection,
        sessions: &[LockedSession],
    ) -> Result<WorkspaceRemoval, Error> {
        raise_timeouts(conn).await?;
        let owners = sessions.iter().filter(|session| session.has_own_folder);
        let note = RemovalNote {
            root: self.request.session_id,
            database: database_id(conn).await?,
            sessions: owners.map(|session| session.id).collect(),
        };
        Ok(WorkspaceRemoval::prepare(self.service, note).await)
    }

    /// Commits the deletion. Returns false if the database did not confirm the commit but has
    /// carried it out: the state of the connection is unknown then.
    async fn commit(&self, transaction: Transaction<'_, Postgres>) -> Result<bool, Error> {
        match in_time(async { Ok::<_, Error>(transaction.commit().await?) }).await {
            Ok(()) => Ok(true),
            Err(_) if in_time(self.is_deleted()).await.unwrap_or(false) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn is_deleted(&self) -> Result<bool, Error> {
        let DeleteSession { tenant, session_id, .. } = self.request;
        let deleted =
            self.service.pool.with(tenant, async |conn| list_gone(conn, &[session_id]).await);
        Ok(!deleted.await?.is_empty())
    }

    /// The sessions to delete, in the order in which they are locked.
    async fn list_sessions(&self, conn: &mut PgConnection) -> Result<Vec<SessionId>, Error> {
        Ok(list_tree(conn, self.request.session_id, self.request.with_forks).await?)
    }

    /// Counts the events to delete, without a lock: the number only selects the permits.
    async fn count_events(&self) -> Result<i64, Error> {
        let tenant = self.request.tenant;
        let counted = self.service.pool.with(tenant, async |conn| {
            let ids = self.list_sessions(conn).await?;
            Ok(count_events(conn, tenant, &ids).await?)
        });
        in_time(counted).await
    }

    /// Waits until a run may have settled.
    async fn wait(&self, subscription: &mut Subscription) {
        let settled = async {
            loop {
                match subscription.next().await {
                    Some(Signal::Event(frame)) if frame.ends_run() => return true,
                    Some(Signal::Event(_) | Signal::Preview(_)) => {}
                    Some(Signal::Stored(_) | Signal::Resync) => return true,
                    None => return false,
                }
            }
        };
        let until = self.until.min(Instant::now() + POLL_INTERVAL);
        if let Ok(false) = timeout_at(until, settled).await {
            // The subscription fell behind and has ended; the database has the state.
            *subscription = self.service.bus.subscribe(self.request.session_id);
        }
    }
}
