//! Transactions of use cases.

use sqlx::{Connection as _, PgConnection, Postgres, Transaction};

use super::error::Error;
use super::state::Service;
use crate::domain::ids::TenantId;

/// Runs work in one transaction as a tenant: commits if the work succeeds, rolls back if it is
/// refused. A refusal leaves the connection usable; after a database error the connection is closed.
pub(super) async fn in_transaction<T>(
    service: &Service,
    tenant: TenantId,
    work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, Error>,
) -> Result<T, Error> {
    let result = service.pool.with(tenant, async |conn| {
        let mut transaction = conn.begin().await?;
        let result = work(&mut *transaction).await;
        end_transaction(transaction, result).await
    });
    result.await?
}

/// Ends a transaction: commits a success, rolls back a refusal. The outer error is that of the
/// database, after which the connection must not be used again.
pub(super) async fn end_transaction<T>(
    transaction: Transaction<'_, Postgres>,
    result: Result<T, Error>,
) -> Result<Result<T, Error>, Error> {
    match result {
        Ok(value) => {
            transaction.commit().await?;
            Ok(Ok(value))
        }
        Err(error @ Error::Store(_)) => Err(error),
        Err(refusal) => {
            transaction.rollback().await?;
            Ok(Err(refusal))
        }
    }
}
