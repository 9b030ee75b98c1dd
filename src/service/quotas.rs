//! Quotas of tenants: the checks of requests that store something.

use sqlx::PgConnection;

use super::error::Error;
use super::state::Service;
use crate::domain::ids::{SessionId, TenantId};
use crate::domain::quota::{QuotaExceeded, QuotaLimits, QuotaResource, QuotaUse};
use crate::store::accept::NewRun;
use crate::store::quotas::{ReservedBytes, check, count, list_uses, measure_new};

/// What a new session stores.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NewSessionSize {
    /// Bytes in the database.
    pub(super) stored: usize,
    /// Bytes of files in its folder.
    pub(super) files: u64,
}

/// A session to be stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewSession {
    pub(super) id: SessionId,
    pub(super) size: NewSessionSize,
}

/// The quotas that a new session may exceed.
const OF_SESSIONS: [QuotaResource; 3] =
    [QuotaResource::Sessions, QuotaResource::StoredBytes, QuotaResource::WorkspaceBytes];

/// Returns the limits that concern a new session; none if there are none, so that no transaction is
/// needed.
pub(super) async fn session_limits(
    service: &Service,
    tenant: TenantId,
) -> Result<Option<QuotaLimits>, Error> {
    let limits = measured_limits(service, tenant).await?;
    Ok(Some(limits).filter(|limits| limits.limit_any(&OF_SESSIONS)))
}

/// Returns the limits of a tenant, whose stored bytes have been measured if they are limited.
pub(super) async fn measured_limits(
    service: &Service,
    tenant: TenantId,
) -> Result<QuotaLimits, Error> {
    let limits = service.quotas.limits(tenant).await?;
    if limits.get(QuotaResource::StoredBytes).is_some() {
        service.quotas.measure(tenant).await?;
    }
    Ok(limits)
}

/// Checks the quotas for a new session in the transaction that stores it. Concurrent checks for the
/// same tenant wait until the transaction ends.
pub(super) async fn check_new_session(
    conn: &mut PgConnection,
    tenant: TenantId,
    limits: &QuotaLimits,
    size: NewSessionSize,
) -> Result<(), Error> {
    let needs = [
        (QuotaResource::Sessions, 1),
        (QuotaResource::StoredBytes, i64::try_from(size.stored).unwrap_or(i64::MAX)),
        (QuotaResource::WorkspaceBytes, i64::try_from(size.files).unwrap_or(i64::MAX)),
    ];
    check_needs(conn, tenant, limits, &needs).await
}

/// Stores a session within the quotas, in the transaction of `store`. Concurrent requests of the
/// tenant are counted one after the other. `store` returns none if it stored nothing.
pub(super) async fn within_quotas<T>(
    conn: &mut PgConnection,
    tenant: TenantId,
    limits: Option<QuotaLimits>,
    new: NewSession,
    store: impl AsyncFnOnce(&mut PgConnection) -> Result<Option<T>, Error>,
) -> Result<Option<T>, Error> {
    let Some(limits) = limits else { return store(conn).await };
    check_new_session(conn, tenant, &limits, new.size).await?;
    let Some(limit) = limits.get(QuotaResource::StoredBytes) else { return store(conn).await };
    let before = count(conn, tenant, QuotaResource::StoredBytes).await?;
    let stored = store(conn).await?;
    if stored.is_some() {
        measure_new(conn, tenant, new.id).await?;
        // The size of the request lacks what the service adds, such as the settings of a source.
        let added = count(conn, tenant, QuotaResource::StoredBytes).await? - before;
        let exceeded = QuotaExceeded::check(QuotaResource::StoredBytes, before, added, limit);
        exceeded.map_or(Ok(()), |exceeded| Err(Error::QuotaExceeded(exceeded)))?;
    }
    Ok(stored)
}

/// Checks quotas in the transaction that uses them.
pub(super) async fn check_needs(
    conn: &mut PgConnection,
    tenant: TenantId,
    limits: &QuotaLimits,
    needs: &[(QuotaResource, i64)],
) -> Result<(), Error> {
    match check(conn, tenant, limits, needs).await? {
        Some(exceeded) => Err(Error::QuotaExceeded(exceeded)),
        None => Ok(()),
    }
}

/// Reserves the bytes that a message stores: its content, and the event that repeats it. This reads
/// the database every few seconds at most.
pub(super) async fn reserve_message(
    service: &Service,
    new: &NewRun<'_>,
) -> Result<ReservedBytes, Error> {
    let bytes = new.input.len().saturating_add(new.event.body.len());
    let quota = service.quotas.stored_bytes(new.tenant).await?;
    quota.reserve(bytes).map_err(Error::QuotaExceeded)
}

/// Lists the use of all quotas of a tenant.
pub(crate) async fn list_quota_uses(
    service: &Service,
    tenant: TenantId,
) -> Result<Vec<QuotaUse>, Error> {
    let defaults = service.quotas.defaults();
    let list = async |conn: &mut PgConnection| list_uses(conn, tenant, defaults).await;
    Ok(service.pool.with(tenant, list).await?)
}
