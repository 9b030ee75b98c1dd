//! Use cases of the service, without HTTP.
//!
//! A caller, such as `http`, parses its protocol, calls a use case, and renders the result. The use
//! cases own the database transactions, and publish events on the bus after the commit.

pub(crate) mod admission;
mod agent_error;
pub(crate) mod agents;
pub(crate) mod answers;
pub(crate) mod browser_tokens;
pub(crate) mod cancel;
pub(crate) mod change_feed;
pub(crate) mod client_events;
pub(crate) mod client_tool;
pub(crate) mod concurrency_limit;
pub(crate) mod content;
pub(crate) mod creator;
pub(crate) mod deadline;
mod deletion_permits;
pub(crate) mod environments;
mod error;
pub(crate) mod events;
mod executing_calls;
pub(crate) mod explanation;
pub(crate) mod feedback;
pub(crate) mod files;
pub(crate) mod history;
pub(crate) mod idempotency;
pub(crate) mod inherited_fields;
pub(crate) mod json;
pub(crate) mod known_sessions;
pub(crate) mod lookup;
pub(crate) mod messages;
pub(crate) mod metadata;
pub(crate) mod model_requests;
pub(crate) mod offload;
pub(crate) mod paging;
mod queue_watch;
pub(crate) mod quotas;
pub(crate) mod runs;
mod server_tool;
pub(crate) mod session_settings;
mod session_tools;
pub(crate) mod sessions;
mod state;
mod transaction;
pub(crate) mod transcripts;
pub(crate) mod turns;
mod type_errors;
pub(crate) mod usage;
pub(crate) mod verification;
pub(crate) mod versions;
pub(crate) mod webhooks;

pub use admission::Overload;
pub use agent_error::AgentError;
pub use agents::{BadAgentFile, OperatorAgents, check_operator_agents};
pub use change_feed::watch_changes;
pub use error::{Error, FieldError};
pub use queue_watch::watch_queue;
pub use session_settings::{MIN_COMPACT_AT, ModelRules, is_beta};
pub use state::{Assemble, Defaults, Options, Parts, Service};
