//! The quotas that are in force, as this process last read them. A change by the operator applies
//! within [`LIFETIME`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgConnection;

use super::reservation::{ByteQuota, StoredSum};
use super::{count, find_limits, measure};
use crate::domain::ids::TenantId;
use crate::domain::quota::{QuotaLimits, QuotaResource};
use crate::store::StoreError;
use crate::store::connections::Connections;

/// Time for which limits and sums are used without reading them again.
const LIFETIME: Duration = Duration::from_secs(5);
/// Maximum number of tenants that are remembered.
const MAX_TENANTS: usize = 10_000;

/// The quotas that are in force.
#[derive(Debug)]
pub struct Quotas {
    /// Connections that see all tenants.
    pool: Connections,
    defaults: QuotaLimits,
    state: Mutex<State>,
    /// Held while a tenant is measured: that may take seconds, and must not take all connections.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether a tenant has quotas of its own, and the time of the read.
    any: Option<(bool, Instant)>,
    tenants: HashMap<TenantId, Arc<TenantQuotas>>,
}

/// The quotas of one tenant.
#[derive(Debug)]
struct TenantQuotas {
    read_at: Instant,
    limits: QuotaLimits,
    /// The stored bytes, if they are limited. A later read changes this sum, so that requests that
    /// are being accepted stay counted.
    stored: Arc<StoredSum>,
}

impl TenantQuotas {
    fn is_fresh(&self) -> bool {
        self.read_at.elapsed() < LIFETIME
    }
}

impl Quotas {
    /// The quotas in a database, with the limits of tenants that have none of their own.
    pub fn new(pool: Connections, defaults: QuotaLimits) -> Self {
        Self { pool, defaults, state: Mutex::default(), reading: tokio::sync::Mutex::default() }
    }

    /// The limits of tenants that have none of their own.
    pub const fn defaults(&self) -> QuotaLimits {
        self.defaults
    }

    /// The limits of a tenant.
    pub async fn limits(&self, tenant: TenantId) -> Result<QuotaLimits, StoreError> {
        Ok(self.find(tenant).await?.map(|quotas| quotas.limits).unwrap_or_default())
    }

    /// Measures what a tenant stores, so that the next check counts it.
    pub async fn measure(&self, tenant: TenantId) -> Result<(), StoreError> {
        let _reading = self.reading.lock().await;
        self.pool.with(async |conn| measure(conn, tenant).await).await
    }

    /// Returns true if a tenant may have a quota.
    pub async fn exist(&self) -> Result<bool, StoreError> {
        if !self.defaults.is_open() {
            return Ok(true);
        }
        if let Some((any, read_at)) = self.state().any
            && read_at.elapsed() < LIFETIME
        {
            return Ok(any);
        }
        let read_at = Instant::now();
        let any = self.pool.with(async |conn| any(conn).await).await?;
        self.state().any = Some((any, read_at));
        Ok(any)
    }

    /// The quota of stored bytes of a tenant, with the sum of the last read and what this process
    /// has stored since. The caller has no transaction open: the read may take a connection.
    pub async fn stored_bytes(&self, tenant: TenantId) -> Result<ByteQuota, StoreError> {
        let Some(quotas) = self.find(tenant).await? else { return Ok(ByteQuota::NONE) };
        let limit = quotas.limits.get(QuotaResource::StoredBytes);
        let of = |limit| ByteQuota::new(Arc::clone(&quotas.stored), limit);
        Ok(limit.map_or(ByteQuota::NONE, of))
    }

    /// The quotas of a tenant; none if no tenant has any.
    async fn find(&self, tenant: TenantId) -> Result<Option<Arc<TenantQuotas>>, StoreError> {
        if !self.exist().await? {
            return Ok(None);
        }
        let known = self.known(tenant);
        if known.as_ref().is_some_and(|quotas| quotas.is_fresh()) {
            return Ok(known);
        }
        // While another request reads, the earlier values apply.
        let _reading = match (self.reading.try_lock(), known) {
            (Ok(reading), _) => reading,
            (Err(_), Some(quotas)) => return Ok(Some(quotas)),
            (Err(_), None) => self.reading.lock().await,
        };
        if let Some(quotas) = self.known(tenant).filter(|quotas| quotas.is_fresh()) {
            return Ok(Some(quotas));
        }
        let defaults = self.defaults;
        let known = self.known(tenant);
        let stored = known.map_or_else(Arc::default, |quotas| Arc::clone(&quotas.stored));
        let read = self.pool.with(async |conn| read(conn, tenant, defaults, stored).await);
        let quotas = Arc::new(read.await?);
        let mut state = self.state();
        if state.tenants.len() >= MAX_TENANTS {
            state.tenants.retain(|_, quotas| quotas.is_fresh());
        }
        state.tenants.insert(tenant, Arc::clone(&quotas));
        Ok(Some(quotas))
    }

    fn known(&self, tenant: TenantId) -> Option<Arc<TenantQuotas>> {
        self.state().tenants.get(&tenant).map(Arc::clone)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn any(conn: &mut PgConnection) -> Result<bool, StoreError> {
    let any = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM quotas WHERE max IS NOT NULL) AS "any!""#
    );
    Ok(any.fetch_one(conn).await?)
}

async fn read(
    conn: &mut PgConnection,
    tenant: TenantId,
    defaults: QuotaLimits,
    stored: Arc<StoredSum>,
) -> Result<TenantQuotas, StoreError> {
    let read_at = Instant::now();
    let limits = find_limits(conn, tenant, defaults).await?;
    if limits.get(QuotaResource::StoredBytes).is_some() {
        let before = stored.stored();
        measure(conn, tenant).await?;
        stored.replace(before, count(conn, tenant, QuotaResource::StoredBytes).await?);
    }
    Ok(TenantQuotas { read_at, limits, stored })
}
