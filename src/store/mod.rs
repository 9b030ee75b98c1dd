//! All SQL: one module for each table, with functions over a connection whose caller owns the
//! transaction.

#[macro_use]
mod named_parameters;
#[macro_use]
mod usage_columns;

pub mod accept;
pub mod agents;
pub mod announced_tool_lists;
pub mod api_keys;
pub mod budgets;
pub mod claim;
pub mod connections;
pub mod courses;
pub mod decisions;
mod deleted_usage;
pub mod deliveries;
pub mod events;
pub mod explain;
pub mod folders;
pub mod forks;
pub mod give_up;
pub mod grants;
#[cfg(feature = "faults")]
pub(crate) mod injected_bugs;
pub mod media;
pub mod messages;
pub mod migrating;
pub mod quotas;
pub mod read_state;
pub mod records;
pub mod requests;
pub mod retry;
pub mod roles;
mod run_log;
pub mod runs;
pub mod sent_changes;
pub mod session_changes;
pub mod session_deletion;
pub mod session_keys;
pub mod session_list;
mod session_state;
pub mod session_transfer;
pub mod sessions;
pub mod step;
pub mod stopping;
pub mod stream_tickets;
pub mod sub_agents;
pub mod tenants;
pub mod tool_calls;
pub mod typed_events;
pub mod usage;
pub mod verify;
pub mod webhooks;

#[cfg(test)]
#[path = "../../tests/support/postgres.rs"]
pub(crate) mod testing;

use std::time::Duration;

use sqlx::PgPool;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

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

impl StoreError {
    /// Returns true if the database is unavailable, whatever the statement.
    fn is_unavailable(&self) -> bool {
        use sqlx::Error;
        match self {
            Self::Database(Error::Database(error)) => {
                let code = error.code().unwrap_or_default();
                UNAVAILABLE.iter().any(|class| code.starts_with(class))
            }
            Self::Database(error) => matches!(
                error,
                Error::Io(_)
                    | Error::Tls(_)
                    | Error::PoolTimedOut
                    | Error::PoolClosed
                    | Error::WorkerCrashed
            ),
            Self::NoAnswer => true,
            Self::Unreadable { .. } => false,
        }
    }

    /// Returns true if the same statement may succeed a little later.
    pub fn may_pass(&self) -> bool {
        let is_passing = |code: &str| PASSING.iter().any(|class| code.starts_with(class));
        match self {
            Self::Database(sqlx::Error::Database(error))
                if is_passing(&error.code().unwrap_or_default()) =>
            {
                true
            }
            Self::Database(_) | Self::NoAnswer | Self::Unreadable { .. } => self.is_unavailable(),
        }
    }

    /// Returns true if the same statement would fail at every retry.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Database(sqlx::Error::Database(error)) => {
                let code = error.code().unwrap_or_default();
                REFUSED.iter().any(|class| code.starts_with(class))
            }
            Self::Database(_) | Self::NoAnswer => false,
            Self::Unreadable { .. } => true,
        }
    }
}

/// Classes of SQLSTATE codes: invalid values, violated constraints, and exceeded limits such as a key
/// that is too long for its index.
const REFUSED: [&str; 3] = ["22", "23", "54"];

/// Classes of SQLSTATE codes: deadlocks and serialization failures, lock timeouts and statement
/// timeouts.
const PASSING: [&str; 3] = ["40", "55P03", "57014"];

/// Classes of SQLSTATE codes: connections, resources, operator intervention, a server that has become
/// read-only, and a session that was terminated because its transaction was idle.
const UNAVAILABLE: [&str; 5] = ["08", "53", "57P", "25006", "25P03"];

/// Returns the constructor of [`StoreError::Unreadable`] for a column.
pub(crate) fn unreadable<E: std::fmt::Display>(
    table: &'static str,
    column: &'static str,
) -> impl FnOnce(E) -> StoreError {
    move |cause| StoreError::Unreadable { table, column, cause: cause.to_string() }
}

/// The schema of this version.
pub static MIGRATIONS: Migrator = sqlx::migrate!();

/// Migrates the schema to this version. Several processes may call it at once.
pub async fn migrate(pool: &PgPool) -> Result<(), MigrateError> {
    MIGRATIONS.run(pool).await
}

/// The use of a pool. Each use has a pool of its own, so that none can starve another.
#[derive(Debug, Clone, Copy)]
pub enum PoolRole {
    /// Migrations, as the login user.
    Login,
    /// Requests of clients, each on the rows of one tenant.
    Api,
    /// Authentication and admission of requests.
    Admission,
    /// Runs.
    Worker,
    /// Renewing leases.
    Heartbeat,
    /// LISTEN and NOTIFY between processes.
    Bus,
}

const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);
const MAX_LIFETIME: Duration = Duration::from_mins(30);

impl PoolRole {
    const fn name(self) -> &'static str {
        match self {
            Self::Login => "twostep login",
            Self::Api => "twostep api",
            Self::Admission => "twostep admission",
            Self::Worker => "twostep worker",
            Self::Heartbeat => "twostep heartbeat",
            Self::Bus => "twostep bus",
        }
    }

    const fn size(self) -> u32 {
        match self {
            Self::Login => 1,
            Self::Api | Self::Admission | Self::Worker => 8,
            // One in use, and one that is being closed because it no longer answers.
            Self::Heartbeat | Self::Bus => 2,
        }
    }

    /// The role of its connections. Neither role owns tables, so that row-level security applies.
    const fn database_role(self) -> Option<&'static str> {
        match self {
            Self::Login => None,
            Self::Api => Some(roles::TENANT),
            Self::Admission | Self::Worker | Self::Heartbeat | Self::Bus => Some(roles::SERVICE),
        }
    }
}

/// Returns a pool that connects at its first use.
///
/// No statement of the service takes long; the timeouts end those that hang on a lock or on a dying
/// server. An idle transaction is terminated before the callers that wait for its locks time out.
pub fn pool(options: &PgConnectOptions, role: PoolRole) -> PgPool {
    let options = options.clone().application_name(role.name()).options([
        ("statement_timeout", "15s"),
        ("lock_timeout", "5s"),
        ("idle_in_transaction_session_timeout", "3s"),
    ]);
    let options = match role.database_role() {
        Some(name) => options.options([("role", name)]),
        None => options,
    };
    PgPoolOptions::new()
        .max_connections(role.size())
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .max_lifetime(MAX_LIFETIME)
        .test_before_acquire(false)
        .connect_lazy_with(options)
}

#[cfg(test)]
mod tests;
