//! Connections that go back without a round trip.
//!
//! The pool below asks the server for a sign of life whenever a connection is returned, because
//! it may have been left in the middle of a statement. That doubles the round trips of a service
//! whose steps are single statements. Here the caller says that its statement is done, and the
//! connection is kept as it is; one that is merely dropped goes the pool's way.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::pool::PoolConnection;
use sqlx::{PgConnection, PgPool, Postgres};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// A pool and those of its connections that wait for the next caller.
#[derive(Debug, Clone)]
pub struct Connections {
    pool: PgPool,
    idle: Arc<Mutex<Vec<PoolConnection<Postgres>>>>,
    /// As many as the pool has connections: who holds one need not wait for another's return.
    turns: Arc<Semaphore>,
}

/// A connection on loan.
#[derive(Debug)]
pub struct Lent {
    conn: PoolConnection<Postgres>,
    home: Connections,
    _turn: OwnedSemaphorePermit,
}

impl From<PgPool> for Connections {
    fn from(pool: PgPool) -> Self {
        let size = usize::try_from(pool.options().get_max_connections()).unwrap_or(usize::MAX);
        Self {
            pool,
            idle: Arc::default(),
            turns: Arc::new(Semaphore::new(size.min(Semaphore::MAX_PERMITS))),
        }
    }
}

impl Connections {
    /// A connection, as soon as there is one.
    pub async fn acquire(&self) -> Result<Lent, sqlx::Error> {
        let patience = self.pool.options().get_acquire_timeout();
        let turn = timeout(patience, Arc::clone(&self.turns).acquire_owned())
            .await
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)?;
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => self.pool.acquire().await?,
        };
        Ok(Lent { conn, home: self.clone(), _turn: turn })
    }

    /// Closes all connections, and waits for those on loan.
    pub async fn close(&self) {
        self.turns.close();
        // Dropped outside of the lock.
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        drop(idle);
        self.pool.close().await;
    }
}

impl Lent {
    /// Gives the connection back after a statement that was carried to its end.
    pub fn give_back(self) {
        let Self { conn, home, _turn } = self;
        let mut idle = home.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked at under the lock: what comes later than the closing hand must not stay.
        if !home.turns.is_closed() {
            idle.push(conn);
        }
    }
}

impl Deref for Lent {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.conn
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.conn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::database;

    async fn backend(conn: &mut PgConnection) -> i32 {
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(conn).await.unwrap()
    }

    #[tokio::test]
    async fn a_connection_that_is_given_back_is_lent_again() {
        let database = database().await;
        let connections = Connections::from(database.pool(2));
        let mut conn = connections.acquire().await.unwrap();
        let first = backend(&mut conn).await;
        conn.give_back();
        let mut again = connections.acquire().await.unwrap();
        assert_eq!(backend(&mut again).await, first);
        let mut other = connections.acquire().await.unwrap();
        assert_ne!(backend(&mut other).await, first, "the first one is on loan");
    }

    #[tokio::test]
    async fn a_connection_that_broke_is_not_lent_again() {
        let database = database().await;
        let connections = Connections::from(database.pool(1));
        let mut conn = connections.acquire().await.unwrap();
        let broken = backend(&mut conn).await;
        let ended = sqlx::query("SELECT pg_terminate_backend(pg_backend_pid())");
        assert!(ended.execute(&mut *conn).await.is_err());
        drop(conn);
        let mut fresh = connections.acquire().await.unwrap();
        assert_ne!(backend(&mut fresh).await, broken);
    }

    #[tokio::test]
    async fn closing_waits_for_no_idle_connection() {
        let database = database().await;
        let connections = Connections::from(database.pool(2));
        connections.acquire().await.unwrap().give_back();
        connections.close().await;
        assert!(matches!(connections.acquire().await, Err(sqlx::Error::PoolClosed)));
    }
}
