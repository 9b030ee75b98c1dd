//! The tools that the model may call. Each tool is one schema and one function in one file.

pub mod builtin;
mod caller;
mod change;
#[cfg(feature = "faults")]
pub(crate) mod crash_test_tools;
mod definition;
mod endpoint;
mod fallback;
pub mod lease;
pub mod mcp;
pub mod pdf;
pub mod policy;
pub mod read_state;
mod registry;
mod results;
mod sampling;
mod schema_cost;
mod search;
mod text;
mod typed;
pub mod workspace;

use std::fmt;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::domain::claim::Fence;
use crate::domain::ids::{RunId, WorkerId};
use crate::domain::permission::PermissionMode;
use crate::domain::source::Source;
use crate::domain::state_change::StateChange;
use crate::domain::sub_agent::Task;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::domain::tool_error::ToolErrorType;

pub use caller::Caller;
pub use change::file_hash;
pub use definition::check_definition;
pub use endpoint::{BadEndpoints, endpoints};
pub use fallback::Fallback;
use lease::LeaseClock;
use read_state::ReadState;
pub use registry::{
    BadTool, CallOutcome, CatalogEntry, ListChanges, Registry, ServerDifference, unknown_tool,
};
pub use results::without_nul;
pub use sampling::{SamplingAccess, SamplingCall};
pub use typed::{Typed, TypedTool};
use workspace::{Draft, Workspace};

/// A tool.
pub trait Tool: fmt::Debug + Send + Sync + 'static {
    /// The name by which the model calls the tool: at most 64 characters of `a-z`, `A-Z`, `0-9`,
    /// `_` and `-`.
    fn name(&self) -> &str;

    /// The description that the model reads: the purpose of the tool, its result and its limits.
    fn description(&self) -> &str;

    /// The JSON Schema of the input, which is an object.
    fn input_schema(&self) -> Value;

    /// The class of side effects that a call may have.
    fn class(&self) -> ToolClass;

    /// The usual duration of a call.
    fn timing(&self) -> ToolTiming;

    /// The maximum duration of a call.
    fn deadline(&self, input: &RawValue) -> Duration;

    /// Returns whether a call may run concurrently with other calls of the same round.
    fn runs_in_parallel(&self) -> bool;

    /// The format of error texts for the model.
    fn error_style(&self) -> ErrorStyle;

    /// The fallback for a change that is not planned or made before its deadline.
    fn fallback(&self) -> Option<Fallback>;

    /// The name of the sandbox in which calls run. `None` if the tool runs no program.
    fn sandbox(&self) -> Option<&'static str> {
        None
    }

    /// The URL that a call requests, for tools whose URL the model chooses. The server behind the
    /// URL receives everything that the model puts into it, so the permission policy checks the
    /// URL.
    fn requested_url(&self, _input: &RawValue) -> Option<String> {
        None
    }

    /// The task that the call gives to a sub-agent. `None` if the call starts no sub-agent.
    fn task(&self, _input: &RawValue) -> Option<Task> {
        None
    }

    /// Executes a call. The input is valid against the schema. Tools of the class `Checkable` plan
    /// a change instead.
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<Output, ToolError>>;

    /// Plans the change of one file, which the caller then makes. Only for tools of the class
    /// `Checkable`.
    fn plan<'a>(
        &'a self,
        context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<FileChange, ToolError>>;
}

/// The context of one call. It gives a call no access to other calls.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The session's files.
    pub workspace: Workspace,
    /// Is cancelled when the caller no longer waits for the call.
    pub stop: CancellationToken,
    /// The lease under which the call runs.
    pub lease: LeaseClock,
    /// The ID that the model gave to the call; empty if there is none.
    pub tool_use_id: String,
    /// The claim under which the call runs.
    pub claim: Fence,
    /// The files that the model has read.
    pub read_state: ReadState,
    /// The permission mode after an approved plan. `None` outside of plan mode.
    pub after_plan: Option<PermissionMode>,
    /// The owner of the session that the call belongs to.
    pub caller: Caller,
    /// Access to the session's model, for tools that request a completion.
    pub model: SamplingAccess,
}

impl ToolContext {
    /// Returns the context of a call that belongs to no run.
    #[must_use]
    pub fn without_run(workspace: Workspace) -> Self {
        Self {
            workspace,
            stop: CancellationToken::new(),
            lease: LeaseClock::default(),
            tool_use_id: String::new(),
            claim: Fence { run_id: RunId::new(), attempt: 1, worker: WorkerId::new() },
            read_state: ReadState::default(),
            after_plan: None,
            caller: Caller::default(),
            model: SamplingAccess::default(),
        }
    }

    /// Returns the context of one call of the same run.
    #[must_use]
    pub fn of_call(&self, tool_use_id: &str) -> Self {
        Self { tool_use_id: tool_use_id.to_owned(), ..self.clone() }
    }

    /// Returns the name of the temporary file that the call writes before it replaces a file.
    pub fn draft(&self) -> Draft {
        Draft::new(self.claim, &self.tool_use_id)
    }

    /// Returns whether a prepared change may still be made: the lease is valid, and the call is not
    /// cancelled.
    pub fn may_change(&self) -> bool {
        self.lease.is_fresh() && !self.stop.is_cancelled()
    }
}

/// The result of a tool: the text for the model, and the state changes and sources that
/// the session stores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The text that the model reads.
    pub text: String,
    /// State changes that are stored in the same transaction as the result.
    pub state_changes: Vec<StateChange>,
    /// The sources of the result, shown to users together with the model's answer.
    pub sources: Vec<Source>,
}

impl Output {
    /// Serializes a value as JSON.
    pub fn json<T: Serialize>(value: &T) -> Result<Self, ToolError> {
        serde_json::to_string(value)
            .map(Self::from)
            .map_err(|error| ToolError::Failed(format!("the result cannot be serialized: {error}")))
    }

    /// Adds a state change.
    #[must_use]
    pub fn with_state_change(mut self, change: StateChange) -> Self {
        self.state_changes.push(change);
        self
    }

    /// Sets the sources.
    #[must_use]
    pub fn with_sources(mut self, sources: Vec<Source>) -> Self {
        self.sources = sources;
        self
    }
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// A planned change of one file. It is made only if the file still has the content that the plan
/// expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The normalized path of the file, relative to the workspace.
    pub path: String,
    /// The SHA-256 of the file before the change. `None` if the file does not exist.
    pub before: Option<Vec<u8>>,
    /// The complete content of the file after the change.
    pub content: Vec<u8>,
    /// The text that the model reads after the change.
    pub result: String,
}

/// The format of error texts for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorStyle {
    /// `Error: ...`
    Plain,
    /// `<tool_use_error>...</tool_use_error>`
    Wrapped,
}

impl ErrorStyle {
    /// Formats an error text for the model.
    pub fn format(self, text: &str) -> String {
        match self {
            Self::Plain => format!("Error: {text}"),
            Self::Wrapped => format!("<tool_use_error>{text}</tool_use_error>"),
        }
    }
}

/// The reason why a call failed. The text is for the model and states the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The input is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The call failed.
    #[error("{0}")]
    Failed(String),
    /// The model has to read the file before it changes it.
    #[error("{0}")]
    ReadRequired(String),
    /// The call exceeded its deadline. Its effect may have happened.
    #[error("{0}")]
    Timeout(String),
    /// The remote server did not respond.
    #[error("{0}")]
    NoResponse(String),
    /// The remote server could not be reached.
    #[error("{0}")]
    Network(String),
}

impl ToolError {
    /// The error type that clients receive and the ledger stores.
    pub const fn error_type(&self) -> Option<ToolErrorType> {
        match self {
            Self::Invalid(_) => Some(ToolErrorType::ValidationError),
            Self::Failed(_) => None,
            Self::ReadRequired(_) => Some(ToolErrorType::ReadRequired),
            Self::Timeout(_) => Some(ToolErrorType::Timeout),
            Self::NoResponse(_) => Some(ToolErrorType::McpNoResponse),
            Self::Network(_) => Some(ToolErrorType::NetworkError),
        }
    }
}
