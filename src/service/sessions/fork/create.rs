//! Creating a fork, once for each idempotency key.

use sqlx::{Connection as _, PgConnection};

use super::super::create::{CreatedSession, Creation};
use super::closing::{closing_content, result_event};
use super::files::{CopyFiles, ForkFiles};
use super::request::CreateFork;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::fork::{CopyPoint, ForkedFrom, MessageName};
use crate::domain::ids::{MessageId, SessionId, TenantId};
use crate::domain::session::Session;
use crate::service::deadline::in_time;
use crate::service::error::Error;
use crate::service::quotas::{
    NewSession, NewSessionSize, check_new_session, session_limits, within_quotas,
};
use crate::service::state::Service;
use crate::service::transaction::in_transaction;
use crate::store::events::append;
use crate::store::folders::database_id;
use crate::store::forks::{
    NewFork, closing_results, copy_point, find_earlier, find_message, insert, lock_source,
};
use crate::store::quotas::set_workspace_size;
use crate::store::sessions::{find, move_external_id};

/// The least that a fork stores.
const FORK_SIZE: NewSessionSize = NewSessionSize { stored: 1, files: 0 };

/// The session to fork, and the key of the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForkSource<'a> {
    pub(crate) tenant: TenantId,
    pub(crate) session_id: SessionId,
    pub(crate) key: Option<&'a str>,
    /// The external id of the session, which the fork takes over.
    pub(crate) passed_on: Option<&'a str>,
}

/// Forks a session. A repeated request returns the fork of the first one, as it is now.
pub(crate) async fn create_fork(
    service: &Service,
    source: ForkSource<'_>,
    request: CreateFork,
) -> Result<CreatedSession, Error> {
    request.check()?;
    let fingerprint = request.fingerprint()?;
    let created = ForkCreation { service, source, request, fingerprint }.run().await?;
    service.bus.lists_changed();
    Ok(created)
}

struct ForkCreation<'a> {
    service: &'a Service,
    source: ForkSource<'a>,
    request: CreateFork,
    fingerprint: Vec<u8>,
}

/// The state of the source before the fork is made.
struct SourceState {
    /// The session in whose workspace the source works; none if a client named the folder.
    workspace_owner: Option<SessionId>,
    /// Its last message, and the time of the read.
    now: CopyPoint,
    /// The fork of an earlier request with the same key.
    earlier: Option<Session>,
    /// The id of the database.
    database: String,
}

/// A fork that is ready to be stored.
struct PreparedFork {
    id: SessionId,
    files: ForkFiles,
    /// True if the fork has the files of the source, as a copy or by a shared folder.
    has_files: bool,
    /// The state of the source when the files were copied.
    copied: CopyPoint,
}

impl ForkCreation<'_> {
    async fn run(&self) -> Result<CreatedSession, Error> {
        let SourceState { workspace_owner, now, earlier, database } =
            in_time(self.read_source()).await?;
        if let Some(session) = earlier {
            return Ok(CreatedSession { session, creation: Creation::Repeated });
        }
        if let Err(refusal) = self.check_early().await {
            // A concurrent request with the same key may have used the rest of the quota.
            let earlier = in_time(self.read_source()).await?.earlier;
            let session = earlier.ok_or(refusal)?;
            return Ok(CreatedSession { session, creation: Creation::Repeated });
        }
        let id = SessionId::new();
        // The files are copied before the fork is stored, so that no fork is seen without them.
        let files = match workspace_owner {
            Some(source) if self.request.has_files() => {
                ForkFiles::copy(self.service, CopyFiles { source, fork: id, database }).await?
            }
            Some(_) | None => ForkFiles::NONE,
        };
        let has_files = workspace_owner.is_none() || self.request.has_files();
        let fork = PreparedFork { id, files, has_files, copied: now };
        in_time(async {
            if let Some(session) = self.store(fork).await? {
                return Ok(CreatedSession { session, creation: Creation::New });
            }
            let earlier = self.read_source().await?.earlier;
            let missing =
                || Error::Internal("the fork of an idempotency key is missing".to_owned());
            Ok(CreatedSession {
                session: earlier.ok_or_else(missing)?,
                creation: Creation::Repeated,
            })
        })
        .await
    }

    /// Refuses a fork that no quota allows before its files are copied. The transaction that stores
    /// it checks again, with the size of the files.
    async fn check_early(&self) -> Result<(), Error> {
        let (service, tenant) = (self.service, self.source.tenant);
        let Some(limits) = session_limits(service, tenant).await? else { return Ok(()) };
        let check = in_transaction(service, tenant, async |conn| {
            check_new_session(conn, tenant, &limits, FORK_SIZE).await
        });
        in_time(check).await
    }

    fn not_found(&self) -> Error {
        Error::SessionNotFound(self.source.session_id.to_string())
    }

    async fn read_source(&self) -> Result<SourceState, Error> {
        let ForkSource { tenant, session_id, key, .. } = self.source;
        let read = self.service.pool.with(tenant, async |conn| {
            let source = find(conn, tenant, session_id).await?;
            let source = source.ok_or_else(|| self.not_found())?;
            // A sub-agent works in the workspace of its parent.
            let owner = source.parent.map_or(session_id, |parent| parent.session_id);
            let workspace_owner = source.workspace.is_none().then_some(owner);
            let now = copy_point(conn, tenant, session_id).await?;
            let now = now.ok_or_else(|| self.not_found())?;
            let earlier = match key {
                Some(key) => find_earlier(conn, tenant, session_id, key).await?,
                None => None,
            };
            let earlier = match earlier {
                Some((_, fingerprint)) if fingerprint != self.fingerprint => {
                    return Err(Error::KeyReused);
                }
                Some((id, _)) => find(conn, tenant, id).await?,
                None => None,
            };
            let database = database_id(conn).await?;
            Ok(SourceState { workspace_owner, now, earlier, database })
        });
        read.await
    }

    /// Stores the fork. Returns none if a concurrent request with the same key was faster.
    async fn store(&self, fork: PreparedFork) -> Result<Option<Session>, Error> {
        let PreparedFork { id, files, has_files, copied } = fork;
        let limits = session_limits(self.service, self.source.tenant).await?;
        let stored = self.service.pool.with(self.source.tenant, async |conn| {
            let mut transaction = conn.begin().await?;
            let size = NewSessionSize { files: files.bytes, ..FORK_SIZE };
            let insert = async |conn: &mut PgConnection| {
                let session = self.insert(conn, id, has_files, copied).await?;
                if session.is_some() && size.files > 0 {
                    let bytes = i64::try_from(size.files).unwrap_or(i64::MAX);
                    set_workspace_size(conn, id, bytes).await?;
                }
                Ok(session)
            };
            let (tenant, new) = (self.source.tenant, NewSession { id, size });
            match within_quotas(&mut transaction, tenant, limits, new, insert).await {
                Ok(Some(session)) => {
                    // The files stay even if the commit is not confirmed: it may have been carried
                    // out.
                    let removal = files.keep();
                    transaction.commit().await?;
                    if let Some(removal) = removal {
                        removal.cancel();
                    }
                    Ok(Ok(Some(session)))
                }
                Err(error @ Error::Store(_)) => Err(error),
                // A concurrent request with the same key may have used the rest of the quota.
                Err(Error::QuotaExceeded(exceeded)) if self.source.key.is_some() => {
                    transaction.rollback().await?;
                    let is_repeated = self.has_earlier(conn).await?;
                    Ok(if is_repeated { Ok(None) } else { Err(Error::QuotaExceeded(exceeded)) })
                }
                refused => {
                    transaction.rollback().await?;
                    Ok(refused)
                }
            }
        });
        stored.await?
    }

    /// True if an earlier request with the same key has stored a fork.
    async fn has_earlier(&self, conn: &mut PgConnection) -> Result<bool, Error> {
        let ForkSource { tenant, session_id, key, .. } = self.source;
        let Some(key) = key else { return Ok(false) };
        Ok(find_earlier(conn, tenant, session_id, key).await?.is_some())
    }

    async fn insert(
        &self,
        conn: &mut PgConnection,
        id: SessionId,
        has_files: bool,
        copied: CopyPoint,
    ) -> Result<Option<Session>, Error> {
        let ForkSource { tenant, session_id: source, key, passed_on } = self.source;
        let last = lock_source(conn, tenant, source).await?;
        // Messages that arrived during the copy may refer to files that the copy does not have.
        let last = last.ok_or_else(|| self.not_found())?.min(copied.last);
        let at = self.fork_point(conn, last).await?;
        let results = closing_results(conn, source, at, copied).await?;
        let closing = closing_content(&results)?;
        let message_id = MessageId::new().to_string();
        let new = NewFork {
            id,
            source,
            at,
            closing: closing.as_ref().map(|content| (message_id.as_str(), content.as_str())),
            title: self.request.title.as_deref(),
            metadata: self.request.metadata.as_deref(),
            has_files,
            key,
            fingerprint: &self.fingerprint,
        };
        if !insert(conn, &new).await? {
            return Ok(None);
        }
        if let Some(external_id) = passed_on
            && !move_external_id(conn, tenant, (source, id), external_id).await?
        {
            return Err(Error::VersionMismatch);
        }
        let forked_from = ForkedFrom { session_id: source, message_seq: at };
        let mut events = vec![NewEvent::new(&EventBody::Forked { forked_from })];
        for result in &results {
            events.push(result_event(result)?);
        }
        // The events are not published: a new session has no subscribers.
        append(conn, id, None, &events).await?;
        let missing = || Error::Internal(format!("the fork {id} was not stored"));
        find(conn, tenant, id).await?.ok_or_else(missing).map(Some)
    }

    /// The number of the last message of the fork's history.
    async fn fork_point(&self, conn: &mut PgConnection, last: i32) -> Result<i32, Error> {
        let session_id = self.source.session_id;
        let find = async |conn: &mut PgConnection, name: &MessageName, pointer| {
            let found = find_message(conn, session_id, last, name).await?;
            let missing = || Error::field(pointer, "is not a message of the session's history");
            found.ok_or_else(missing)
        };
        match (&self.request.after, &self.request.before) {
            (Some(name), _) => find(conn, name, "/after").await,
            (None, Some(name)) => Ok(find(conn, name, "/before").await? - 1),
            (None, None) => Ok(last),
        }
    }
}
