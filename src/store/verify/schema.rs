//! Whether the database has the schema of this version.

use std::collections::BTreeSet;

use sqlx::PgConnection;

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
    /// The database refused, or is away.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for SchemaMismatch {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Refuses a schema that is not exactly this version's. It changes nothing.
pub async fn check_schema(conn: &mut PgConnection) -> Result<(), SchemaMismatch> {
    let exists =
        sqlx::query_scalar!(r#"SELECT to_regclass('_sqlx_migrations') IS NOT NULL AS "exists!""#)
            .fetch_one(&mut *conn)
            .await?;
    if !exists {
        return Err(SchemaMismatch::Missing);
    }
    let applied: BTreeSet<i64> =
        sqlx::query_scalar!("SELECT version FROM _sqlx_migrations WHERE success")
            .fetch_all(conn)
            .await?
            .into_iter()
            .collect();
    let ours: BTreeSet<i64> = MIGRATIONS.iter().map(|migration| migration.version).collect();
    if applied == ours {
        return Ok(());
    }
    let newest = |versions: &BTreeSet<i64>| versions.last().copied().unwrap_or(0);
    let advice = if applied.is_subset(&ours) {
        "migrate brings it up to date"
    } else {
        "use the program that made it"
    };
    Err(SchemaMismatch::Version { found: newest(&applied), expected: newest(&ours), advice })
}
