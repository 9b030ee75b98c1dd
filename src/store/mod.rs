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
mod error;
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
pub mod quotas;
pub mod read_state;
pub mod records;
pub mod requests;
pub mod retry;
pub mod roles;
mod run_log;
pub mod runs;
pub mod schema;
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

use sqlx::{ConnectOptions as _, PgPool};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

pub(crate) use error::unreadable;
pub use error::{ErrorClass, StoreError};
pub use schema::MIGRATIONS;

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
        // A migration may be slow, and its whole text would be logged.
        None => options.disable_statement_logging(),
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
