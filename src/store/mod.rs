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
pub mod browser_tokens;
pub mod budgets;
pub mod change_feed;
pub mod claim;
pub mod connections;
pub mod courses;
pub mod decisions;
mod deleted_usage;
pub mod deliveries;
pub mod environments;
mod error;
pub mod events;
pub mod explain;
pub mod feedback;
pub mod files;
pub mod folders;
pub mod forks;
pub mod give_up;
pub mod grants;
pub mod group_commit;
mod hash;
#[cfg(feature = "faults")]
pub(crate) mod injected_bugs;
pub mod leases;
pub mod media;
pub mod message_events;
pub mod messages;
mod model_settings;
mod pools;
pub mod quotas;
pub mod read_state;
pub mod records;
pub mod requests;
pub mod retries;
pub mod retry;
pub mod roles;
mod run_log;
pub mod run_queue;
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
pub mod titles;
pub mod tool_calls;
pub mod transcripts;
pub mod turns;
pub mod typed_events;
pub mod usage;
pub mod verify;
pub mod webhooks;
pub mod withdrawn;
pub mod write_probe;

#[cfg(test)]
#[path = "../../tests/support/postgres.rs"]
pub(crate) mod testing;

pub(crate) use error::unreadable;
pub use error::{ErrorClass, StoreError};
pub use pools::{
    ConnectionLimits, PoolRole, PoolSizes, ProcessParts, connection_limits, pool, sized_pool,
};
pub use schema::MIGRATIONS;

#[cfg(test)]
mod tests;
