//! Connections that go back without a round trip.
//!
//! The pool below asks the server for a sign of life whenever a connection is returned, because
//! it may have been left in the middle of a statement. That doubles the round trips of a service
//! whose steps are single statements. Here the caller says that its statement is done, and the
//! connection is kept as it is; one that is merely dropped is closed, and those that lie idle must
//! give a sign of life before they are lent again.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, PgConnection, PgPool, Postgres};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::domain::ids::TenantId;

/// How long a connection may take to give a sign of life.
const PING_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a connection may lie idle and be lent without a look at it. A server that restarts
/// takes longer.
const TRUSTED_FOR: Duration = Duration::from_secs(1);

/// A pool and those of its connections that wait for the next caller.
#[derive(Debug, Clone)]
pub struct Connections {
    pool: PgPool,
    idle: Arc<Mutex<Vec<Idle>>>,
    /// As many as the pool has connections: who holds one need not wait for another's return.
    turns: Arc<Semaphore>,
    /// How many connections have broken. What lay idle at that time may be broken, too.
    breaks: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Idle {
    conn: PoolConnection<Postgres>,
    /// The breaks that it is known to have survived.
    survived: u64,
    /// When it was given back.
    since: Instant,
    /// Whose rows it shows.
    tenant: Option<TenantId>,
}

impl Idle {
    fn is_trusted(&self, breaks: u64) -> bool {
        self.survived >= breaks && self.since.elapsed() < TRUSTED_FOR
    }

    /// Makes it ready to be lent, and says whether it is. One that has to be told whose rows it
    /// shows gives a sign of life by that.
    async fn is_ready(&mut self, tenant: Option<TenantId>, breaks: u64) -> bool {
        let told = match tenant.filter(|_| self.tenant != tenant) {
            Some(tenant) => timeout(PING_TIMEOUT, show(&mut self.conn, tenant)).await,
            None if self.is_trusted(breaks) => return true,
            None => timeout(PING_TIMEOUT, self.conn.ping()).await,
        };
        matches!(told, Ok(Ok(())))
    }
}

/// Has a connection show the rows of this tenant.
async fn show(conn: &mut PgConnection, tenant: TenantId) -> Result<(), sqlx::Error> {
    let tenant = tenant.as_uuid().to_string();
    sqlx::query_scalar!("SELECT set_config('twostep.tenant', $1, false)", tenant)
        .fetch_one(conn)
        .await?;
    Ok(())
}

/// Connections as a role that sees the rows of one tenant at a time, and of none until it is said
/// whose. There is no other way to get one, so nobody who works for a caller can forget to say it.
#[derive(Debug, Clone)]
pub struct TenantConnections(Connections);

impl From<PgPool> for TenantConnections {
    fn from(pool: PgPool) -> Self {
        Self(pool.into())
    }
}

impl TenantConnections {
    /// A connection that sees this tenant's rows. If one lies idle that has shown them before, it
    /// costs no round trip.
    pub async fn acquire_as(&self, tenant: TenantId) -> Result<Lent, sqlx::Error> {
        self.0.lend(Some(tenant)).await
    }

    /// Closes all connections, and waits for those on loan.
    pub async fn close(&self) {
        self.0.close().await;
    }
}

/// A connection on loan.
#[derive(Debug)]
pub struct Lent {
    /// Here until it is given back.
    conn: Option<PoolConnection<Postgres>>,
    home: Connections,
    survived: u64,
    tenant: Option<TenantId>,
    _turn: OwnedSemaphorePermit,
}

impl From<PgPool> for Connections {
    fn from(pool: PgPool) -> Self {
        let size = usize::try_from(pool.options().get_max_connections()).unwrap_or(usize::MAX);
        Self {
            pool,
            idle: Arc::default(),
            turns: Arc::new(Semaphore::new(size.min(Semaphore::MAX_PERMITS))),
            breaks: Arc::default(),
        }
    }
}

impl Connections {
    /// A connection, as soon as there is one.
    pub async fn acquire(&self) -> Result<Lent, sqlx::Error> {
        self.lend(None).await
    }

    async fn lend(&self, tenant: Option<TenantId>) -> Result<Lent, sqlx::Error> {
        let patience = self.pool.options().get_acquire_timeout();
        let turn = timeout(patience, Arc::clone(&self.turns).acquire_owned())
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)?;
        let breaks = self.breaks.load(Ordering::Relaxed);
        let idle = self.idle_one(tenant, breaks).await;
        let is_new = idle.is_none();
        let conn = match idle {
            Some(conn) => conn,
            None => self.pool.acquire().await?,
        };
        let home = self.clone();
        let mut lent = Lent { conn: Some(conn), home, survived: breaks, tenant, _turn: turn };
        if let Some(tenant) = tenant.filter(|_| is_new) {
            show(&mut lent, tenant).await?;
        }
        Ok(lent)
    }

    /// One that lies idle and is not broken.
    async fn idle_one(
        &self,
        tenant: Option<TenantId>,
        breaks: u64,
    ) -> Option<PoolConnection<Postgres>> {
        loop {
            let mut idle = self.next_idle(tenant)?;
            if idle.is_ready(tenant, breaks).await {
                return Some(idle.conn);
            }
            idle.conn.close_on_drop();
            self.breaks.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The last one that showed the rows of this tenant; else the one that has lain there longest,
    /// so that those of tenants who ask often are left to them.
    fn next_idle(&self, tenant: Option<TenantId>) -> Option<Idle> {
        let mut idle = self.idle();
        let place = idle.iter().rposition(|idle| idle.tenant == tenant).unwrap_or(0);
        (place < idle.len()).then(|| idle.remove(place))
    }

    /// Closes all connections, and waits for those on loan.
    pub async fn close(&self) {
        self.turns.close();
        // Dropped outside of the lock.
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
        self.pool.close().await;
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent {
    /// Gives the connection back after a statement that was carried to its end.
    pub fn give_back(mut self) {
        let mut idle = self.home.idle();
        // Looked at under the lock: what comes later than the closing hand must not stay.
        if !self.home.turns.is_closed()
            && let Some(conn) = self.conn.take()
        {
            let (survived, tenant, since) = (self.survived, self.tenant, Instant::now());
            idle.push(Idle { conn, survived, since, tenant });
        }
    }
}

impl Drop for Lent {
    /// A connection that is not given back failed, or was left in the middle of a statement. It
    /// may lead to a server that is gone, or has become read-only, and is not used again.
    fn drop(&mut self) {
        if let Some(conn) = &mut self.conn {
            conn.close_on_drop();
            self.home.breaks.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Deref for Lent {
    type Target = PgConnection;

    #[expect(clippy::expect_used, reason = "only `give_back` takes it, and ends the loan")]
    fn deref(&self) -> &PgConnection {
        self.conn.as_ref().expect("a loan has its connection")
    }
}

impl DerefMut for Lent {
    #[expect(clippy::expect_used, reason = "only `give_back` takes it, and ends the loan")]
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.conn.as_mut().expect("a loan has its connection")
    }
}

#[cfg(test)]
mod tests;
