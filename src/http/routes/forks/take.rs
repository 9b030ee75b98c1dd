//! Making a fork, once.

use sqlx::{Connection as _, PgConnection};

use super::body::CreateFork;
use super::files::Files;
use crate::domain::event::{EventBody, NewEvent};
use crate::domain::fork::{ForkedFrom, MessageName, closing};
use crate::domain::ids::{MessageId, SessionId, TenantId};
use crate::domain::message::BadContent;
use crate::domain::session::Session;
use crate::http::error::ApiError;
use crate::http::server::deadline::in_time;
use crate::http::state::Api;
use crate::store::events::append;
use crate::store::folders::database_id;
use crate::store::forks::{NewFork, find_earlier, find_message, insert, lock_source, open_calls};
use crate::store::session_transfer::count_messages;
use crate::store::sessions::find;

/// A fork on its way.
pub(super) struct Forking<'a> {
    pub(super) api: &'a Api,
    pub(super) tenant: TenantId,
    pub(super) source: SessionId,
    pub(super) wanted: CreateFork,
    pub(super) key: Option<&'a str>,
    pub(super) fingerprint: Vec<u8>,
}

/// What there is before a fork is made.
struct Seen {
    /// The session in whose folder the source works; none if somebody has named the folder.
    folder_of: Option<SessionId>,
    /// Its last message.
    last: i32,
    /// The fork that the same request made before.
    earlier: Option<Session>,
    /// Which database will have the fork.
    database: String,
}

impl Forking<'_> {
    /// The fork, and whether it was there before.
    pub(super) async fn take(&self) -> Result<(Session, bool), ApiError> {
        let Seen { folder_of, last, earlier, database } = in_time(self.look()).await?;
        if let Some(earlier) = earlier {
            return Ok((earlier, true));
        }
        let id = SessionId::new();
        // Copied before the fork is there, so that no fork ever lacks them.
        let files = match folder_of {
            Some(owner) if self.wanted.has_files() => {
                Files::copy(self.api, owner, id, database).await?
            }
            Some(_) | None => Files::NONE,
        };
        let has_files = folder_of.is_none() || self.wanted.has_files();
        in_time(async {
            if let Some(session) = self.store(id, files, has_files, last).await? {
                return Ok((session, false));
            }
            let earlier = self.look().await?.earlier;
            let never = || ApiError::Internal("no earlier fork for a key".to_owned());
            Ok((earlier.ok_or_else(never)?, true))
        })
        .await
    }

    fn missing(&self) -> ApiError {
        ApiError::SessionNotFound(self.source.to_string())
    }

    async fn look(&self) -> Result<Seen, ApiError> {
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        let source = find(&mut conn, self.tenant, self.source).await?;
        let source = source.ok_or_else(|| self.missing())?;
        // A sub-agent works in the folder of its parent.
        let owner = source.parent.map_or(self.source, |parent| parent.session_id);
        let folder_of = source.workspace.is_none().then_some(owner);
        let last = count_messages(&mut conn, self.tenant, self.source).await?;
        let last = last.ok_or_else(|| self.missing())?;
        let earlier = match self.key {
            Some(key) => find_earlier(&mut conn, self.tenant, self.source, key).await?,
            None => None,
        };
        let earlier = match earlier {
            Some((_, fingerprint)) if fingerprint != self.fingerprint => {
                return Err(ApiError::KeyReused);
            }
            Some((id, _)) => find(&mut conn, self.tenant, id).await?,
            None => None,
        };
        let database = database_id(&mut conn).await?;
        conn.give_back();
        Ok(Seen { folder_of, last, earlier, database })
    }

    /// Stores the fork; none if the same request was faster.
    async fn store(
        &self,
        id: SessionId,
        files: Files,
        has_files: bool,
        seen: i32,
    ) -> Result<Option<Session>, ApiError> {
        let mut conn = self.api.pool.acquire_as(self.tenant).await?;
        let mut transaction = conn.begin().await?;
        let met = match self.meet(&mut transaction, id, has_files, seen).await {
            Ok(Some(session)) => {
                // Nobody knows what becomes of a commit that is not answered.
                let leavers = files.keep();
                transaction.commit().await?;
                if let Some(leavers) = leavers {
                    leavers.forget();
                }
                Ok(Some(session))
            }
            Err(error @ ApiError::Store(_)) => return Err(error),
            refused => {
                transaction.rollback().await?;
                refused
            }
        };
        conn.give_back();
        met
    }

    async fn meet(
        &self,
        conn: &mut PgConnection,
        id: SessionId,
        has_files: bool,
        seen: i32,
    ) -> Result<Option<Session>, ApiError> {
        let last = lock_source(conn, self.tenant, self.source).await?;
        // What came while files were copied may tell of some that the copy lacks.
        let last = last.ok_or_else(|| self.missing())?.min(seen);
        let at = self.fork_point(conn, last).await?;
        let open = open_calls(conn, self.source, at).await?;
        let internal = |error: BadContent| ApiError::Internal(error.to_string());
        let closing = (!open.is_empty()).then(|| closing(&open)).transpose().map_err(internal)?;
        let message_id = MessageId::new().to_string();
        let new = NewFork {
            id,
            source: self.source,
            at,
            closing: closing.as_ref().map(|content| (message_id.as_str(), content.as_str())),
            title: self.wanted.title.as_deref(),
            metadata: self.wanted.metadata.as_deref(),
            has_files,
            key: self.key,
            fingerprint: &self.fingerprint,
        };
        if !insert(conn, &new).await? {
            return Ok(None);
        }
        let forked_from = ForkedFrom { session_id: self.source, message_seq: at };
        let event = NewEvent::new(&EventBody::Forked { forked_from });
        // Nobody reads a session that is not there.
        append(conn, id, None, &[event]).await?;
        let never = || ApiError::Internal(format!("{id} was stored and is not there"));
        find(conn, self.tenant, id).await?.ok_or_else(never).map(Some)
    }

    /// The number of the last message that the fork has.
    async fn fork_point(&self, conn: &mut PgConnection, last: i32) -> Result<i32, ApiError> {
        let named = async |conn: &mut PgConnection, name: &MessageName, pointer| {
            let found = find_message(conn, self.source, last, name).await?;
            let none = || ApiError::field(pointer, "is no message of the session's history");
            found.ok_or_else(none)
        };
        match (&self.wanted.after, &self.wanted.before) {
            (Some(name), _) => named(conn, name, "/after").await,
            (None, Some(name)) => Ok(named(conn, name, "/before").await? - 1),
            (None, None) => Ok(last),
        }
    }
}
