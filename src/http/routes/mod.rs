//! The routes of the API, one file per resource.

pub(in crate::http) mod agents;
pub(in crate::http) mod approvals;
pub(in crate::http) mod browser_tokens;
pub(in crate::http) mod docs;
pub(in crate::http) mod events;
pub(in crate::http) mod explain;
pub(in crate::http) mod feedback;
pub(in crate::http) mod files;
pub(in crate::http) mod health;
pub(in crate::http) mod info;
pub(in crate::http) mod mcp_servers;
pub(in crate::http) mod messages;
pub(in crate::http) mod models;
mod paging;
pub(in crate::http) mod post_events;
pub(in crate::http) mod post_message;
pub(in crate::http) mod probe;
pub(in crate::http) mod requests;
pub(in crate::http) mod retry;
pub(in crate::http) mod runs;
pub(in crate::http) mod sessions;
pub(in crate::http) mod todos;
pub(in crate::http) mod tool_results;
pub(in crate::http) mod tools;
pub(in crate::http) mod usage;
pub(in crate::http) mod verify;
pub(in crate::http) mod webhooks;

pub(in crate::http) use paging::{DEFAULT_LIMIT, MAX_LIMIT, Order};
