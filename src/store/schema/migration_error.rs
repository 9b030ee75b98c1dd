//! Time limits of migrations, and the reasons why one fails.

use std::time::Duration;

use super::version::SchemaMismatch;

/// Time limits of a migration.
#[derive(Debug, Clone, Copy)]
pub struct Waits {
    /// The time that one try waits for each lock.
    pub lock: Duration,
    /// The time in which all tries of a migration must get their locks, and the time in which another
    /// process that migrates must have finished.
    pub longest: Duration,
}

impl Default for Waits {
    /// Two seconds for a lock, which is less than the timeouts of requests, and one hour in total.
    fn default() -> Self {
        Self { lock: Duration::from_secs(2), longest: Duration::from_hours(1) }
    }
}

/// The reason why the schema was not migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// A migration failed and was rolled back.
    #[error("the migration {version} of the database schema failed: {}", text(.cause))]
    Failed {
        /// The number of the migration.
        version: i64,
        /// The error of the database.
        cause: sqlx::Error,
    },
    /// Other transactions held locks that a migration needs.
    #[error(
        "the migration {version} of the database schema got no lock within {seconds} s; the oldest \
         other transaction is of {blocker}: end it, and migrate again"
    )]
    Locked {
        /// The number of the migration.
        version: i64,
        /// The time limit.
        seconds: u64,
        /// The oldest other transaction.
        blocker: String,
    },
    /// Another process has been migrating for too long.
    #[error(
        "another process has been migrating the database schema for more than {seconds} s: {holder}; \
         start again when it has finished"
    )]
    AnotherMigrates {
        /// The time limit.
        seconds: u64,
        /// The other process.
        holder: String,
    },
    /// An applied migration has another text than the one of this program.
    #[error(
        "the migration {0} of the database is not the one of this program: use a released version, \
         or restore a backup from before the migration"
    )]
    Changed(i64),
    /// This program cannot work with the schema.
    #[error(transparent)]
    Mismatch(#[from] SchemaMismatch),
    /// The database is unavailable or refused another statement.
    #[error("the database schema cannot be migrated: {}", text(.0))]
    Database(sqlx::Error),
}

/// The text of an error without the prefix that sqlx adds.
fn text(error: &sqlx::Error) -> String {
    if let sqlx::Error::Database(error) = error {
        return error.message().to_owned();
    }
    error.to_string()
}

impl From<sqlx::Error> for MigrationError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}
