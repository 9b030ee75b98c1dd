//! Errors of the database: their classes, and what follows from each.

use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// A statement that failed, or a row that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is unavailable or refused the statement.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// The database did not answer in time.
    #[error("the database did not answer in time")]
    NoAnswer,
    /// A column has a value that this version cannot read.
    #[error("{table}.{column} is unreadable: {cause}")]
    Unreadable {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The reason.
        cause: String,
    },
}

/// The class of a database error. `docs/database.md` has the same table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The connection was refused, reset, closed or never accepted, or no answer came. The statement may
    /// have been executed.
    Connection,
    /// The server or a proxy sent something that is not an answer, such as nothing at all in the
    /// handshake.
    Protocol,
    /// All connections of the pool were in use.
    PoolTimeout,
    /// The server, the database or the user has the maximum number of connections.
    TooManyConnections,
    /// The server is starting or stopping, or an administrator ended the connection.
    Shutdown,
    /// The server does not let this user in: the password, the user or the database is not as the
    /// configuration says.
    AccessDenied,
    /// The disk is full, or cannot be read or written.
    Disk,
    /// The server has no memory, or another resource is exhausted.
    Resources,
    /// The database is read-only: a standby, or a server that was demoted.
    ReadOnly,
    /// A serialization failure or a deadlock.
    Conflict,
    /// A lock was not free in time.
    LockTimeout,
    /// The statement took too long and was canceled.
    StatementTimeout,
    /// A constraint, a value or a limit of the database refuses the data.
    RefusedData,
    /// A stored value cannot be read.
    UnreadableData,
    /// Anything else: a defect of the service, or of the schema.
    Defect,
}

impl ErrorClass {
    /// Returns true if the same work may succeed a little later. Runs retry it, and clients get
    /// `503 database_unavailable`; after all other errors they get `500 internal`.
    pub const fn may_pass(self) -> bool {
        match self {
            Self::Connection
            | Self::Protocol
            | Self::PoolTimeout
            | Self::TooManyConnections
            | Self::Shutdown
            | Self::AccessDenied
            | Self::Disk
            | Self::Resources
            | Self::ReadOnly
            | Self::Conflict
            | Self::LockTimeout
            | Self::StatementTimeout => true,
            Self::RefusedData | Self::UnreadableData | Self::Defect => false,
        }
    }

    /// Returns true if the same work would fail at every retry, so that its run is settled as failed.
    /// After a defect the run is released, and another worker tries.
    pub const fn is_permanent(self) -> bool {
        match self {
            Self::RefusedData | Self::UnreadableData => true,
            Self::Connection
            | Self::Protocol
            | Self::PoolTimeout
            | Self::TooManyConnections
            | Self::Shutdown
            | Self::AccessDenied
            | Self::Disk
            | Self::Resources
            | Self::ReadOnly
            | Self::Conflict
            | Self::LockTimeout
            | Self::StatementTimeout
            | Self::Defect => false,
        }
    }

    /// The class of an error of the database library.
    pub fn of(error: &sqlx::Error) -> Self {
        use sqlx::Error;
        if let Error::Database(error) = error {
            return Self::of_code(&error.code().unwrap_or_default());
        }
        if matches!(error, Error::Io(_) | Error::Tls(_) | Error::PoolClosed | Error::WorkerCrashed)
        {
            return Self::Connection;
        }
        if matches!(error, Error::Protocol(_) | Error::BeginFailed) {
            return Self::Protocol;
        }
        if matches!(error, Error::PoolTimedOut) { Self::PoolTimeout } else { Self::Defect }
    }

    /// The class of a SQLSTATE code: the one of its longest known prefix.
    fn of_code(code: &str) -> Self {
        let known = CODES.iter().filter(|(prefix, _)| code.starts_with(prefix));
        known.max_by_key(|(prefix, _)| prefix.len()).map_or(Self::Defect, |(_, class)| *class)
    }
}

/// SQLSTATE codes and classes of codes. 25P03 ends a session whose transaction was idle, as after the
/// process was paused.
const CODES: [(&str, ErrorClass); 16] = [
    ("08", ErrorClass::Connection),
    ("25P03", ErrorClass::Connection),
    ("53300", ErrorClass::TooManyConnections),
    ("57P", ErrorClass::Shutdown),
    ("28", ErrorClass::AccessDenied),
    ("3D000", ErrorClass::AccessDenied),
    ("53100", ErrorClass::Disk),
    ("58030", ErrorClass::Disk),
    ("53", ErrorClass::Resources),
    ("25006", ErrorClass::ReadOnly),
    ("40", ErrorClass::Conflict),
    ("55P03", ErrorClass::LockTimeout),
    ("57014", ErrorClass::StatementTimeout),
    ("22", ErrorClass::RefusedData),
    ("23", ErrorClass::RefusedData),
    ("54", ErrorClass::RefusedData),
];

impl StoreError {
    /// The class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Database(error) => ErrorClass::of(error),
            Self::NoAnswer => ErrorClass::Connection,
            Self::Unreadable { .. } => ErrorClass::UnreadableData,
        }
    }

    /// Returns true if the same work may succeed a little later.
    pub fn may_pass(&self) -> bool {
        self.class().may_pass()
    }

    /// Returns true if the same work would fail at every retry.
    pub fn is_permanent(&self) -> bool {
        self.class().is_permanent()
    }

    /// Returns true if the server refused or cancelled a statement. A statement outside of a
    /// transaction has changed nothing then, and its connection can be used again.
    pub fn is_of_statement(&self) -> bool {
        let Self::Database(sqlx::Error::Database(error)) = self else { return false };
        let error = error.try_downcast_ref::<PgDatabaseError>();
        error.is_some_and(|error| matches!(error.severity(), PgSeverity::Error))
    }
}

/// Returns the constructor of [`StoreError::Unreadable`] for a column.
pub(crate) fn unreadable<E: std::fmt::Display>(
    table: &'static str,
    column: &'static str,
) -> impl FnOnce(E) -> StoreError {
    move |cause| StoreError::Unreadable { table, column, cause: cause.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_the_class_of_its_longest_known_prefix() {
        for (code, expected) in [
            ("53300", ErrorClass::TooManyConnections),
            ("53100", ErrorClass::Disk),
            ("53200", ErrorClass::Resources),
            ("57P01", ErrorClass::Shutdown),
            ("57014", ErrorClass::StatementTimeout),
            ("28P01", ErrorClass::AccessDenied),
            ("23505", ErrorClass::RefusedData),
            ("42P01", ErrorClass::Defect),
            ("", ErrorClass::Defect),
        ] {
            assert_eq!(ErrorClass::of_code(code), expected, "{code}");
        }
    }

    #[test]
    fn the_documentation_lists_every_code() {
        let page = include_str!("../../docs/database.md");
        for (code, class) in CODES {
            let row = page.lines().find(|line| line.contains(&format!("`{code}")));
            let row = row.unwrap_or_else(|| panic!("{code} is missing"));
            let is_retried = row.contains("| yes |") && row.contains("`503 database_unavailable`");
            assert_eq!(is_retried, class.may_pass(), "{row}");
        }
    }
}
