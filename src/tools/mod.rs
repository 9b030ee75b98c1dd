//! The tools that the model may call. Each tool is one schema and one function in one file.

pub mod builtin;
mod caller;
mod change;
#[cfg(feature = "faults")]
pub(crate) mod crash_test_tools;
mod definition;
mod endpoint;
mod error;
mod fallback;
pub mod lease;
pub mod mcp;
mod output;
pub mod pdf;
pub mod policy;
pub mod read_state;
mod registry;
mod results;
mod sampling;
mod schema_cost;
mod search;
mod text;
mod tool;
mod typed;
pub mod workspace;

pub use caller::Caller;
pub use change::file_hash;
pub use definition::check_definition;
pub use endpoint::{BadEndpoints, endpoints};
pub use error::{ErrorStyle, ToolError};
pub use output::{FileChange, Output};
pub use registry::{
    BadTool, CallOutcome, CatalogEntry, ListChanges, Registry, ServerDifference, unknown_tool,
};
pub use sampling::{SamplingAccess, SamplingCall};
pub use tool::{Fallback, RunLimit, Tool, ToolContext};
pub use typed::{Typed, TypedTool};
