//! Comparison of the database's schema with this version's.

use std::collections::BTreeSet;

use sqlx::PgConnection;

use crate::store::grants::{Ungranted, find_missing};
use crate::store::{MIGRATIONS, StoreError};

/// The reason why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaMismatch {
    /// The tables do not exist.
    #[error("the database has no schema; `twostep migrate` creates it")]
    Missing,
    /// The tables belong to another version.
    #[error("the database schema has version {found}, this program needs {expected}; {advice}")]
    Version {
        /// The newest migration in the database.
        found: i64,
        /// The newest migration of this version.
        expected: i64,
        /// The remedy.
        advice: &'static str,
    },
    /// The roles lack privileges.
    #[error(transparent)]
    Ungranted(#[from] Ungranted),
    /// The database is unavailable or refused the statement.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for SchemaMismatch {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Checks that the schema is exactly this version's and that the roles have their privileges.
/// Read-only.
pub async fn check_schema(conn: &mut PgConnection) -> Result<(), SchemaMismatch> {
    let migrations = sqlx::query!(
        r#"SELECT to_regclass('_sqlx_migrations') IS NOT NULL AS "exist!",
                  coalesce(has_table_privilege(to_regclass('_sqlx_migrations'), 'SELECT'), true)
                      AS "may_be_read!""#
    )
    .fetch_one(&mut *conn)
    .await?;
    if !migrations.exist {
        return Err(SchemaMismatch::Missing);
    }
    if !migrations.may_be_read {
        check_grants(conn).await?;
    }
    let applied: BTreeSet<i64> =
        sqlx::query_scalar!("SELECT version FROM _sqlx_migrations WHERE success")
            .fetch_all(&mut *conn)
            .await?
            .into_iter()
            .collect();
    let ours: BTreeSet<i64> = MIGRATIONS.iter().map(|migration| migration.version).collect();
    if applied == ours {
        return check_grants(conn).await;
    }
    let newest = |versions: &BTreeSet<i64>| versions.last().copied().unwrap_or(0);
    let advice = if applied.is_subset(&ours) {
        "run `twostep migrate`"
    } else {
        "use the program version that created it"
    };
    Err(SchemaMismatch::Version { found: newest(&applied), expected: newest(&ours), advice })
}

async fn check_grants(conn: &mut PgConnection) -> Result<(), SchemaMismatch> {
    find_missing(conn).await?.map_or(Ok(()), |missing| Err(missing.into()))
}
