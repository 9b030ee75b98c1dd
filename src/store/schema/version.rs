//! Comparison of the schema of the database with that of this program.

use std::collections::BTreeSet;

use sqlx::PgConnection;
use sqlx::migrate::Migrator;

use crate::store::error::StoreError;
use crate::store::grants::{Ungranted, find_missing};

/// The migrations of this version.
pub static MIGRATIONS: Migrator = sqlx::migrate!();

/// A schema that this program can work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaVersion {
    /// The newest migration in the database.
    pub found: i64,
    /// The newest migration of this program.
    pub known: i64,
}

impl SchemaVersion {
    /// Returns true if a later version has migrated the schema.
    pub fn is_newer(&self) -> bool {
        self.found > self.known
    }
}

/// The reason why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaMismatch {
    /// The tables do not exist.
    #[error("the database has no schema; `twostep migrate` creates it")]
    Missing,
    /// Migrations of this program are not applied.
    #[error(
        "the database schema has version {found}, this program needs {expected}; run \
         `twostep migrate`"
    )]
    Older {
        /// The newest migration in the database.
        found: i64,
        /// The newest migration of this program.
        expected: i64,
    },
    /// A later version has migrated the schema, and this program cannot work with it.
    #[error(
        "the database schema has version {found} and requires a program that knows migration \
         {required}, this program knows migrations up to {known}; start the program version that \
         migrated it, or restore a backup from before the migration"
    )]
    Newer {
        /// The newest migration in the database.
        found: i64,
        /// The oldest program that works with the schema, by its newest migration.
        required: i64,
        /// The newest migration of this program.
        known: i64,
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

/// Checks that this program can work with the schema and that the roles have their privileges.
/// Read-only.
pub async fn check_schema(conn: &mut PgConnection) -> Result<SchemaVersion, SchemaMismatch> {
    let version = check_version(conn, &versions(&MIGRATIONS)).await?;
    check_grants(conn).await?;
    Ok(version)
}

/// Checks that a program with these migrations can work with the schema.
pub(super) async fn check_version(
    conn: &mut PgConnection,
    known: &BTreeSet<i64>,
) -> Result<SchemaVersion, SchemaMismatch> {
    let tables = sqlx::query!(
        r#"SELECT to_regclass('_sqlx_migrations') IS NOT NULL AS "exist!",
                  to_regclass('schema_compatibility') IS NOT NULL AS "have_compatibility!",
                  coalesce(has_table_privilege(to_regclass('_sqlx_migrations'), 'SELECT'), true)
                  AND coalesce(has_table_privilege(to_regclass('schema_compatibility'), 'SELECT'),
                               true) AS "may_be_read!""#
    )
    .fetch_one(&mut *conn)
    .await?;
    if !tables.exist {
        return Err(SchemaMismatch::Missing);
    }
    if !tables.may_be_read {
        check_grants(conn).await?;
    }
    let applied: BTreeSet<i64> =
        sqlx::query_scalar!("SELECT version FROM _sqlx_migrations WHERE success")
            .fetch_all(&mut *conn)
            .await?
            .into_iter()
            .collect();
    let required = if tables.have_compatibility {
        sqlx::query_scalar!("SELECT oldest_program FROM schema_compatibility")
            .fetch_optional(conn)
            .await?
    } else {
        None
    };
    compare(known, &applied, required)
}

/// The numbers of these migrations.
pub(super) fn versions(migrations: &Migrator) -> BTreeSet<i64> {
    migrations.iter().map(|migration| migration.version).collect()
}

/// Compares the migrations of a program with those of a database, which requires a program that knows
/// the migration `required`. Without that number, it requires all of its migrations.
fn compare(
    known: &BTreeSet<i64>,
    applied: &BTreeSet<i64>,
    required: Option<i64>,
) -> Result<SchemaVersion, SchemaMismatch> {
    let newest = |versions: &BTreeSet<i64>| versions.last().copied().unwrap_or(0);
    let version = SchemaVersion { found: newest(applied), known: newest(known) };
    let unknown = applied.difference(known).last().copied();
    if let Some(required) = required.or(unknown).filter(|required| *required > version.known) {
        return Err(SchemaMismatch::Newer { found: version.found, required, known: version.known });
    }
    if known.is_subset(applied) {
        return Ok(version);
    }
    if applied.is_empty() {
        return Err(SchemaMismatch::Missing);
    }
    Err(SchemaMismatch::Older { found: version.found, expected: version.known })
}

async fn check_grants(conn: &mut PgConnection) -> Result<(), SchemaMismatch> {
    find_missing(conn).await?.map_or(Ok(()), |missing| Err(missing.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome for a program with the migrations 1, 2 and 3.
    fn outcome(applied: &[i64], required: Option<i64>) -> Result<SchemaVersion, String> {
        let applied = applied.iter().copied().collect();
        compare(&BTreeSet::from([1, 2, 3]), &applied, required).map_err(|error| error.to_string())
    }

    #[test]
    fn a_program_works_with_its_own_schema_and_with_newer_ones_that_do_not_require_more() {
        let version = |found| Ok(SchemaVersion { found, known: 3 });
        assert_eq!(outcome(&[1, 2, 3], None), version(3));
        for required in 1..=3 {
            assert_eq!(outcome(&[1, 2, 3, 4, 9], Some(required)), version(9));
        }
    }

    #[test]
    fn a_program_refuses_a_schema_that_requires_a_newer_one() {
        let refusal = |found, required| {
            Err(format!(
                "the database schema has version {found} and requires a program that knows \
                 migration {required}, this program knows migrations up to 3; start the program \
                 version that migrated it, or restore a backup from before the migration"
            ))
        };
        assert_eq!(outcome(&[1, 2, 3, 4, 9], Some(4)), refusal(9, 4));
        assert_eq!(outcome(&[1, 2, 9], Some(9)), refusal(9, 9));
        // Migrations of before the rule say nothing about compatibility.
        assert_eq!(outcome(&[1, 2, 3, 4], None), refusal(4, 4));
    }

    #[test]
    fn a_program_refuses_a_schema_that_lacks_its_migrations() {
        let older =
            "the database schema has version 2, this program needs 3; run `twostep migrate`";
        assert_eq!(outcome(&[1, 2], Some(1)), Err(older.to_owned()));
        assert_eq!(outcome(&[], None), Err(SchemaMismatch::Missing.to_string()));
    }
}
