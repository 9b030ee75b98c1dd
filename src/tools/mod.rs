//! Tools: what the model may ask for, each one schema and one function in one file.

pub mod builtin;
pub mod lease;
mod registry;
pub mod sandbox;
mod typed;
#[cfg(feature = "faults")]
pub(crate) mod witness;
pub mod workspace;

use std::fmt;

use futures::future::BoxFuture;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::domain::claim::Fence;
use crate::domain::tool::{ToolClass, ToolTiming};

use lease::LeaseClock;
pub use registry::{Answer, BadTool, CatalogEntry, Registry};
pub use typed::{Output, Typed, TypedTool};
use workspace::{Draft, Workspace};

/// A tool.
pub trait Tool: fmt::Debug + Send + Sync + 'static {
    /// The name that the model uses: at most 64 of `a-z`, `A-Z`, `0-9`, `_` and `-`.
    fn name(&self) -> &str;

    /// When to use it, what it returns, what not to use it for.
    fn description(&self) -> &str;

    /// The JSON Schema of its input, an object.
    fn input_schema(&self) -> Value;

    /// What it may do to the world.
    fn class(&self) -> ToolClass;

    /// How long it usually takes.
    fn timing(&self) -> ToolTiming;

    /// Does it. The input has passed the schema.
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<String, ToolError>>;

    /// The change of one file that a call is about to make. Only for checkable tools.
    fn planned_change<'a>(
        &'a self,
        context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<FileChange, ToolError>>;
}

/// What a call knows of its surroundings. Two calls never see each other.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The session's files.
    pub workspace: Workspace,
    /// Fires when nobody waits for the call any more.
    pub stop: CancellationToken,
    /// The lease under which the call runs.
    pub lease: LeaseClock,
    /// The model's id of the call; empty where there is none yet.
    pub tool_use_id: String,
    /// The claim under which the call runs.
    pub claim: Fence,
}

impl ToolContext {
    /// The surroundings of one call.
    #[must_use]
    pub fn of_call(&self, tool_use_id: &str) -> Self {
        Self { tool_use_id: tool_use_id.to_owned(), ..self.clone() }
    }

    /// What the call calls a file that is not finished.
    pub fn draft(&self) -> Draft {
        Draft::new(self.claim, &self.tool_use_id)
    }

    /// Whether a change that is ready may still be made.
    pub fn may_change(&self) -> bool {
        self.lease.is_fresh() && !self.stop.is_cancelled()
    }
}

/// A change of one file, told by hashes of the file before and after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// SHA-256 before; none if there is no file.
    pub before: Option<Vec<u8>>,
    /// SHA-256 after.
    pub after: Vec<u8>,
    /// What the model reads when the change has happened.
    pub result: String,
}

/// Why a call failed. The text is for the model: it says what to do differently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The input means nothing here.
    #[error("{0}")]
    Invalid(String),
    /// The call failed.
    #[error("{0}")]
    Failed(String),
}
