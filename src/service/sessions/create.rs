//! Creating a session, once for each idempotency key and each external id.

use sqlx::PgConnection;

use crate::domain::ids::{SessionId, TenantId};
use crate::domain::session::Session;
use crate::service::agents::resolve_session;
use crate::service::creator::Creator;
use crate::service::deadline::in_time;
use crate::service::error::Error;
use crate::service::idempotency::IdempotencyKey;
use crate::service::quotas::{
    NewSession as Counted, NewSessionSize, session_limits, within_quotas,
};
use crate::service::session_settings::{CreateSession, NewSettings};
use crate::service::state::Service;
use crate::service::transaction::in_transaction;
use crate::store::session_keys::{find_by_key, remove_expired_key};
use crate::store::sessions::{NewSession, find, find_by_external_id, insert};

/// The session of a create request.
#[derive(Debug)]
pub(crate) struct CreatedSession {
    pub(crate) session: Session,
    pub(crate) creation: Creation,
}

/// The request that created the session of a create request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Creation {
    /// This one.
    New,
    /// An earlier one with the same idempotency key.
    Repeated,
    /// Another one, which gave the session the same external id.
    Found,
}

/// Creates a session. A repeated request returns the session of the first one, and a request with the
/// external id of a session returns that session, as it is now.
pub(crate) async fn create_session(
    service: &Service,
    creator: &Creator,
    request: CreateSession,
    key: Option<IdempotencyKey>,
) -> Result<CreatedSession, Error> {
    creator.check(&request)?;
    // The database cannot compare every external id.
    request.check()?;
    let tenant = creator.tenant;
    let external_id = request.external_id.clone().map(|id| (id, request.user.clone()));
    let creation = SessionCreation { service, tenant, key, external_id };
    if let Some(earlier) = in_time(creation.find_earlier()).await? {
        return Ok(earlier);
    }
    let mut new = resolve_session(service, tenant, request).await?;
    creator.pin(&mut new.settings);
    in_time(creation.store(&new)).await
}

/// Refuses a request for the session of another user. Browsers choose external ids: one user must not
/// get the session of another.
pub(super) fn check_user(named: Option<&str>, owner: Option<&str>) -> Result<(), Error> {
    if named.is_some() && named != owner {
        return Err(Error::ExternalIdTaken);
    }
    Ok(())
}

struct SessionCreation<'a> {
    service: &'a Service,
    tenant: TenantId,
    key: Option<IdempotencyKey>,
    /// The external id, and the user that the request names.
    external_id: Option<(String, Option<String>)>,
}

impl SessionCreation<'_> {
    /// Finds the session that an earlier request with the same key or external id created.
    async fn find_earlier(&self) -> Result<Option<CreatedSession>, Error> {
        if self.key.is_none() && self.external_id.is_none() {
            return Ok(None);
        }
        let earlier = self.service.pool.with(self.tenant, async |conn| {
            Ok::<_, Error>(match self.find_repeated(conn).await? {
                Err(refusal) => Err(refusal),
                Ok(Some(session)) => {
                    Ok(Some(CreatedSession { session, creation: Creation::Repeated }))
                }
                Ok(None) => self.find_external(conn).await?,
            })
        });
        earlier.await?
    }

    async fn find_repeated(
        &self,
        conn: &mut PgConnection,
    ) -> Result<Result<Option<Session>, Error>, Error> {
        let Some(IdempotencyKey { key, fingerprint }) = &self.key else { return Ok(Ok(None)) };
        Ok(match find_by_key(conn, self.tenant, key).await? {
            Some((_, before)) if before != *fingerprint => Err(Error::KeyReused),
            Some((id, _)) => Ok(find(conn, self.tenant, id).await?),
            None => Ok(None),
        })
    }

    async fn find_external(
        &self,
        conn: &mut PgConnection,
    ) -> Result<Result<Option<CreatedSession>, Error>, Error> {
        let Some((external_id, user)) = &self.external_id else { return Ok(Ok(None)) };
        let session = find_by_external_id(conn, self.tenant, external_id).await?;
        let Some(session) = session else { return Ok(Ok(None)) };
        let owned = check_user(user.as_deref(), session.settings.user.as_deref());
        Ok(owned.map(|()| Some(CreatedSession { session, creation: Creation::Found })))
    }

    /// Stores the session, or finds the one of a concurrent request with the same key or external id.
    async fn store(&self, new: &NewSettings) -> Result<CreatedSession, Error> {
        loop {
            match self.try_store(new).await {
                Ok(Some(session)) => {
                    self.service.bus.lists_changed();
                    self.service.known_sessions.add_created(self.tenant, &session);
                    return Ok(CreatedSession { session, creation: Creation::New });
                }
                // A concurrent request for the same session may have used the rest of the quota.
                Err(refusal @ Error::QuotaExceeded(_)) => {
                    return self.find_earlier().await?.ok_or(refusal);
                }
                Ok(None) => {}
                Err(error) => return Err(error),
            }
            // None if that session was deleted in between: its key and its external id are free again.
            if let Some(earlier) = self.find_earlier().await? {
                return Ok(earlier);
            }
        }
    }

    /// Stores the session unless another one has its key or external id.
    async fn try_store(&self, new: &NewSettings) -> Result<Option<Session>, Error> {
        let id = SessionId::new();
        let mut row = new.row(id, self.tenant);
        if let Some(IdempotencyKey { key, fingerprint }) = &self.key {
            row.idempotency_key = Some((key, fingerprint));
        }
        let (service, tenant) = (self.service, self.tenant);
        let Some(limits) = session_limits(service, tenant).await? else {
            return service.pool.with(tenant, async |conn| self.insert(conn, &row).await).await;
        };
        let stored = serde_json::to_vec(&new.settings).map_err(Error::internal)?.len();
        let size = NewSessionSize { stored, ..NewSessionSize::default() };
        let store = async |conn: &mut PgConnection| self.insert(conn, &row).await;
        let stored = in_transaction(service, tenant, async |conn| {
            within_quotas(conn, tenant, Some(limits), Counted { id, size }, store).await
        });
        stored.await
    }

    async fn insert(
        &self,
        conn: &mut PgConnection,
        row: &NewSession<'_>,
    ) -> Result<Option<Session>, Error> {
        if let Some(IdempotencyKey { key, .. }) = &self.key {
            remove_expired_key(conn, self.tenant, key).await?;
        }
        if !insert(conn, row).await? {
            return Ok(None);
        }
        let missing = || Error::Internal(format!("the session {} was not stored", row.id));
        find(conn, self.tenant, row.id).await?.ok_or_else(missing).map(Some)
    }
}
