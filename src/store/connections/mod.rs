//! A pool whose connections return to it without a round trip.
//!
//! sqlx's pool pings the server whenever a connection returns, because the connection may have been
//! left in the middle of a statement. That doubles the round trips of a service whose steps are
//! single statements. Here [`Connections::with`] knows that the work succeeded and keeps the
//! connection as it is. A connection whose work failed is closed, and a connection that was idle for
//! long is pinged before its next use.

mod scope;

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, Executor as _, PgConnection, PgPool, Postgres};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use crate::domain::ids::TenantId;
pub use scope::Scope;

/// Time limit of the ping of an idle connection.
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// Time that a connection may be idle and be used again without a ping. A restart of the server
/// takes longer.
const TRUST_DURATION: Duration = Duration::from_secs(1);

/// The number of uses after which a connection first makes new plans, and then whenever its uses have
/// doubled. A prepared statement keeps its plan until the next analysis of its tables. A plan that was
/// made while they were small scans them, so a table may have twice the rows at most.
const FIRST_PLANS: u64 = 8;

/// Time after which an idle connection is closed, so that other processes can use its slot at the
/// server.
const IDLE_LIFETIME: Duration = Duration::from_secs(30);
/// The number of idle connections that stay open, so that a quiet service answers at once.
const KEPT_IDLE: usize = 1;
/// Time after which a caller whose new connection is not open yet also takes one that has returned: the
/// server may have no free slot.
const OPENING_IS_SLOW: Duration = Duration::from_millis(100);
const RETURNED_INTERVAL: Duration = Duration::from_millis(20);

/// A pool and its idle connections.
#[derive(Debug, Clone)]
pub struct Connections {
    pool: PgPool,
    idle: Arc<Mutex<Vec<Idle>>>,
    /// One permit for each connection of the pool: the holder of a permit need not wait for another
    /// caller's connection to return.
    permits: Arc<Semaphore>,
    /// The number of connections that broke. Each idle connection may have broken at the same time.
    breaks: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Idle {
    conn: PoolConnection<Postgres>,
    /// The value of `breaks` at which this connection last worked.
    survived: u64,
    /// The time of its return.
    since: Instant,
    /// The tenant whose rows it sees.
    tenant: Option<TenantId>,
    uses: u64,
}

impl Idle {
    fn is_trusted(&self, breaks: u64) -> bool {
        self.survived >= breaks && self.since.elapsed() < TRUST_DURATION
    }

    fn has_old_plans(&self) -> bool {
        self.uses >= FIRST_PLANS && self.uses.is_power_of_two()
    }

    /// Prepares the connection for its next use and returns whether it works. Setting the tenant or
    /// discarding the plans replaces the ping.
    async fn is_ready(&mut self, tenant: Option<TenantId>, breaks: u64) -> bool {
        let answered = match tenant.filter(|_| self.tenant != tenant) {
            Some(tenant) => timeout(PING_TIMEOUT, set_tenant(&mut self.conn, tenant)).await,
            None if self.has_old_plans() => {
                timeout(PING_TIMEOUT, discard_plans(&mut self.conn)).await
            }
            None if self.is_trusted(breaks) => return true,
            None => timeout(PING_TIMEOUT, self.conn.ping()).await,
        };
        matches!(answered, Ok(Ok(())))
    }
}

async fn discard_plans(conn: &mut PgConnection) -> Result<(), sqlx::Error> {
    conn.execute("DISCARD PLANS").await?;
    Ok(())
}

/// Makes this tenant's rows visible on a connection, and hides all others.
async fn set_tenant(conn: &mut PgConnection, tenant: TenantId) -> Result<(), sqlx::Error> {
    let tenant = tenant.as_uuid().to_string();
    sqlx::query_scalar!("SELECT set_config('twostep.tenant', $1, false)", tenant)
        .fetch_one(conn)
        .await?;
    Ok(())
}

/// Connections with a role that sees the rows of one tenant at a time, and no rows until a tenant is
/// set. Each access names the tenant, so that no request can forget it.
#[derive(Debug, Clone)]
pub struct TenantConnections(Connections);

impl From<PgPool> for TenantConnections {
    fn from(pool: PgPool) -> Self {
        Self(pool.into())
    }
}

impl TenantConnections {
    /// Runs `work` on a connection that sees this tenant's rows; otherwise like
    /// [`Connections::with`].
    pub async fn with<T, E: From<sqlx::Error>>(
        &self,
        tenant: TenantId,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        self.acquire_as(tenant).await?.run(work).await
    }

    /// A connection that sees this tenant's rows. If an idle connection was last used for the same
    /// tenant, this costs no round trip.
    pub async fn acquire_as(&self, tenant: TenantId) -> Result<PooledConnection, sqlx::Error> {
        self.0.checkout(Some(tenant)).await
    }

    /// Checks that a connection can be had.
    pub async fn check(&self) -> Result<(), sqlx::Error> {
        self.0.check().await
    }

    /// Closes connections that have been idle for long.
    pub fn close_idle(&self) {
        self.0.close_idle();
    }

    /// Closes all connections, and waits for those in use.
    pub async fn close(&self) {
        self.0.close().await;
    }
}

/// A connection in use. [`PooledConnection::give_back`] returns it to the pool; dropping it closes it.
#[derive(Debug)]
pub struct PooledConnection {
    /// Empty once it has been returned.
    conn: Option<PoolConnection<Postgres>>,
    home: Connections,
    survived: u64,
    tenant: Option<TenantId>,
    /// The number of earlier uses.
    uses: u64,
    _permit: OwnedSemaphorePermit,
}

impl From<PgPool> for Connections {
    fn from(pool: PgPool) -> Self {
        let size = usize::try_from(pool.options().get_max_connections()).unwrap_or(usize::MAX);
        Self {
            pool,
            idle: Arc::default(),
            permits: Arc::new(Semaphore::new(size.min(Semaphore::MAX_PERMITS))),
            breaks: Arc::default(),
        }
    }
}

impl Connections {
    /// Runs `work` on a connection, which returns to the pool if the work succeeds.
    ///
    /// An error closes the connection: it may have broken, or be in the middle of a transaction. A
    /// refusal that leaves the connection clean, such as one after a rollback, is therefore a
    /// success of the work: return it as `Ok(Err(refusal))` and flatten the result with `?`.
    pub async fn with<T, E: From<sqlx::Error>>(
        &self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        self.acquire().await?.run(work).await
    }

    /// A connection, as soon as one is free.
    pub async fn acquire(&self) -> Result<PooledConnection, sqlx::Error> {
        self.checkout(None).await
    }

    async fn checkout(&self, tenant: Option<TenantId>) -> Result<PooledConnection, sqlx::Error> {
        let limit = self.pool.options().get_acquire_timeout();
        let permit = timeout(limit, Arc::clone(&self.permits).acquire_owned())
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)?;
        let breaks = self.breaks.load(Ordering::Relaxed);
        let idle = self.take_working(tenant, breaks).await;
        let (conn, uses) = match idle {
            Some(idle) => (idle.conn, idle.uses),
            None => self.open(tenant, breaks).await?,
        };
        let (conn, home) = (Some(conn), self.clone());
        let mut acquired =
            PooledConnection { conn, home, survived: breaks, tenant, uses, _permit: permit };
        if let Some(tenant) = tenant.filter(|_| uses == 0) {
            set_tenant(&mut acquired, tenant).await?;
        }
        Ok(acquired)
    }

    /// Opens a connection. If that takes long, uses one that another caller returns meanwhile. Returns
    /// also the number of its uses, which is 0 for a new one.
    async fn open(
        &self,
        tenant: Option<TenantId>,
        breaks: u64,
    ) -> Result<(PoolConnection<Postgres>, u64), sqlx::Error> {
        let returned = async {
            sleep(OPENING_IS_SLOW).await;
            loop {
                if let Some(idle) = self.take_working(tenant, breaks).await {
                    return (idle.conn, idle.uses);
                }
                sleep(RETURNED_INTERVAL).await;
            }
        };
        tokio::select! {
            biased;
            opened = self.pool.acquire() => Ok((opened?, 0)),
            returned = returned => Ok(returned),
        }
    }

    /// Checks that a connection can be had.
    pub async fn check(&self) -> Result<(), sqlx::Error> {
        self.acquire().await?.give_back();
        Ok(())
    }

    /// Closes connections that have been idle for long.
    pub fn close_idle(&self) {
        self.close_idle_since(IDLE_LIFETIME);
    }

    fn close_idle_since(&self, lifetime: Duration) {
        let mut idle = self.idle();
        // The connections are in the order of their return.
        let expired = idle.iter().take_while(|idle| idle.since.elapsed() >= lifetime).count();
        let expired = expired.min(idle.len().saturating_sub(KEPT_IDLE));
        let expired: Vec<Idle> = idle.drain(..expired).collect();
        drop(idle);
        for mut idle in expired {
            idle.conn.close_on_drop();
        }
    }

    /// An idle connection that works. Broken ones that are found on the way are closed.
    async fn take_working(&self, tenant: Option<TenantId>, breaks: u64) -> Option<Idle> {
        loop {
            let mut idle = self.take_idle(tenant)?;
            if idle.is_ready(tenant, breaks).await {
                return Some(idle);
            }
            idle.conn.close_on_drop();
            self.breaks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The connection that this tenant used last; otherwise the one that has been idle longest, so
    /// that tenants with frequent requests keep theirs.
    fn take_idle(&self, tenant: Option<TenantId>) -> Option<Idle> {
        let mut idle = self.idle();
        let index = idle.iter().rposition(|idle| idle.tenant == tenant).unwrap_or(0);
        (index < idle.len()).then(|| idle.remove(index))
    }

    /// Closes all connections, and waits for those in use.
    pub async fn close(&self) {
        self.permits.close();
        // Dropped outside of the lock.
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
        self.pool.close().await;
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PooledConnection {
    /// Runs `work`, and returns the connection to the pool if the work succeeds.
    async fn run<T, E>(
        mut self,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    ) -> Result<T, E> {
        let value = work(&mut self).await?;
        self.give_back();
        Ok(value)
    }

    /// Returns the connection to the pool. Its last statement must have completed, outside of a
    /// transaction.
    pub fn give_back(mut self) {
        let mut idle = self.home.idle();
        // Checked under the lock: a connection that returns after `close` emptied the list must not
        // be kept.
        if !self.home.permits.is_closed()
            && let Some(conn) = self.conn.take()
        {
            let (survived, tenant, uses) = (self.survived, self.tenant, self.uses + 1);
            idle.push(Idle { conn, survived, since: Instant::now(), tenant, uses });
        }
    }
}

impl Drop for PooledConnection {
    /// A connection that was not returned failed or was abandoned in the middle of a statement. Its
    /// server may be gone or have become read-only, so it is closed.
    fn drop(&mut self) {
        if let Some(conn) = &mut self.conn {
            conn.close_on_drop();
            self.home.breaks.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Deref for PooledConnection {
    type Target = PgConnection;

    #[expect(clippy::expect_used, reason = "only `give_back` takes it, and consumes the guard")]
    fn deref(&self) -> &PgConnection {
        self.conn.as_ref().expect("a connection in use is present")
    }
}

impl DerefMut for PooledConnection {
    #[expect(clippy::expect_used, reason = "only `give_back` takes it, and consumes the guard")]
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.conn.as_mut().expect("a connection in use is present")
    }
}

#[cfg(test)]
mod tests;
