//! The quotas that are in force, as this process last read them. A change by the operator applies
//! within [`LIFETIME`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::PgConnection;

use super::{count, find_limits, measure};
use crate::domain::ids::TenantId;
use crate::domain::quota::{QuotaExceeded, QuotaLimits, QuotaResource};
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
    /// The stored bytes, if they are limited, with those that this process has accepted since.
    stored: AtomicI64,
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

    /// Checks that a tenant may store these bytes, by the sum of the last read and what this process
    /// has accepted since. Bytes that are allowed are added to the sum.
    pub async fn accept_bytes(
        &self,
        tenant: TenantId,
        bytes: i64,
    ) -> Result<Option<QuotaExceeded>, StoreError> {
        let Some(quotas) = self.find(tenant).await? else { return Ok(None) };
        let Some(limit) = quotas.limits.get(QuotaResource::StoredBytes) else { return Ok(None) };
        let used = quotas.stored.load(Ordering::Relaxed);
        let exceeded = QuotaExceeded::check(QuotaResource::StoredBytes, used, bytes, limit);
        if exceeded.is_none() {
            quotas.stored.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(exceeded)
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
        let read = self.pool.with(async |conn| read(conn, tenant, defaults).await);
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
) -> Result<TenantQuotas, StoreError> {
    let read_at = Instant::now();
    let limits = find_limits(conn, tenant, defaults).await?;
    let stored = match limits.get(QuotaResource::StoredBytes) {
        Some(_) => {
            measure(conn, tenant).await?;
            count(conn, tenant, QuotaResource::StoredBytes).await?
        }
        None => 0,
    };
    Ok(TenantQuotas { read_at, limits, stored: AtomicI64::new(stored) })
}
