//! Whether the database has the schema of this version.

use std::collections::BTreeSet;

use sqlx::PgConnection;

use crate::store::grants::{Ungranted, find_missing};
use crate::store::{MIGRATIONS, StoreError};

/// Why the rows of a database cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum SchemaMismatch {
    /// Nobody has made the tables.
    #[error("the database has no schema of twostep; serve or migrate makes it")]
    Missing,
    /// Another version made them.
    #[error("the schema is at version {found}, and this program's is {expected}; {advice}")]
    Version {
        /// The newest migration in the database.
        found: i64,
        /// The newest migration of this version.
        expected: i64,
        /// What to do.
        advice: &'static str,
    },
    /// The roles may not work with it.
    #[error(transparent)]
    Ungranted(#[from] Ungranted),
    /// The database refused, or is away.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for SchemaMismatch {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Refuses a schema that is not exactly this version's, or that the roles may not work with. It
/// changes nothing.
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
        "migrate brings it up to date"
    } else {
        "use the program that made it"
    };
    Err(SchemaMismatch::Version { found: newest(&applied), expected: newest(&ours), advice })
}

async fn check_grants(conn: &mut PgConnection) -> Result<(), SchemaMismatch> {
    find_missing(conn).await?.map_or(Ok(()), |missing| Err(missing.into()))
}
