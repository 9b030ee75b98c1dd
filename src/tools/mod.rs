//! Tools: what the model may ask for, each one schema and one function in one file.

pub mod builtin;
mod caller;
mod change;
mod definition;
mod endpoint;
mod fallback;
pub mod lease;
pub mod mcp;
mod model_access;
pub mod pdf;
pub mod policy;
mod registry;
mod results;
mod schema_work;
mod search;
pub mod seen;
mod text;
mod typed;
#[cfg(feature = "faults")]
pub(crate) mod witness;
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
use crate::domain::note::Note;
use crate::domain::permission::PermissionMode;
use crate::domain::source::Source;
use crate::domain::sub_agent::Task;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::domain::tool_error::ToolErrorType;

pub use caller::Caller;
pub use change::file_hash;
pub use definition::check_definition;
pub use endpoint::{BadEndpoints, endpoints};
pub use fallback::Fallback;
use lease::LeaseClock;
pub use model_access::{Inquiry, ModelAccess};
pub use registry::{
    Answer, BadTool, CatalogEntry, ListChanges, Registry, ServerDifference, unknown_tool,
};
pub use results::without_nul;
use seen::SeenFiles;
pub use typed::{Typed, TypedTool};
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

    /// How long a call may take.
    fn deadline(&self, input: &RawValue) -> Duration;

    /// Whether calls of it may run beside others of their round.
    fn runs_in_parallel(&self) -> bool;

    /// How the model is told of failures.
    fn error_style(&self) -> ErrorStyle;

    /// What to do when a change could not be planned or made in time.
    fn fallback(&self) -> Option<Fallback>;

    /// In what confinement its calls run, if they are programs.
    fn sandbox(&self) -> Option<&'static str> {
        None
    }

    /// The address that a call visits, if the model may make one up: whoever is there learns what
    /// the model has put into it.
    fn visits(&self, _input: &RawValue) -> Option<String> {
        None
    }

    /// What a sub-agent is to do; none where the call starts none.
    fn task(&self, _input: &RawValue) -> Option<Task> {
        None
    }

    /// Does it. The input has passed the schema. Checkable tools plan a change instead.
    fn call<'a>(
        &'a self,
        context: &'a ToolContext,
        input: &'a RawValue,
    ) -> BoxFuture<'a, Result<Output, ToolError>>;

    /// The change of one file that a call comes to, which is then made for it. Only for checkable
    /// tools.
    fn plan<'a>(
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
    /// The files that the model has seen.
    pub seen: SeenFiles,
    /// The mode that follows on an approved plan; none outside of plan mode.
    pub after_plan: Option<PermissionMode>,
    /// On whose behalf the call is made.
    pub caller: Caller,
    /// The way to the model.
    pub model: ModelAccess,
}

impl ToolContext {
    /// The surroundings of a call that belongs to no run.
    #[must_use]
    pub fn alone(workspace: Workspace) -> Self {
        Self {
            workspace,
            stop: CancellationToken::new(),
            lease: LeaseClock::default(),
            tool_use_id: String::new(),
            claim: Fence { run_id: RunId::new(), attempt: 1, worker: WorkerId::new() },
            seen: SeenFiles::default(),
            after_plan: None,
            caller: Caller::default(),
            model: ModelAccess::default(),
        }
    }

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

/// What a tool returns: what the model reads, and what the session remembers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// What the model reads.
    pub text: String,
    /// What is stored together with it.
    pub notes: Vec<Note>,
    /// What it rests on, for those who read the answer.
    pub sources: Vec<Source>,
}

impl Output {
    /// A value as its JSON text.
    pub fn json<T: Serialize>(value: &T) -> Result<Self, ToolError> {
        serde_json::to_string(value)
            .map(Self::from)
            .map_err(|error| ToolError::Failed(format!("the result cannot be written: {error}")))
    }

    /// The same, with something to remember.
    #[must_use]
    pub fn with(mut self, note: Note) -> Self {
        self.notes.push(note);
        self
    }

    /// The same, with what it rests on.
    #[must_use]
    pub fn resting_on(mut self, sources: Vec<Source>) -> Self {
        self.sources = sources;
        self
    }
}

impl From<String> for Output {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// A change of one file, planned. It is made only if the file is then still as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file, relative to the workspace in its plainest form.
    pub path: String,
    /// SHA-256 before; none if there is no file.
    pub before: Option<Vec<u8>>,
    /// The whole file after the change.
    pub content: Vec<u8>,
    /// What the model reads when the change has happened.
    pub result: String,
}

/// How the model is told of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorStyle {
    /// `Error: ...`
    Plain,
    /// `<tool_use_error>...</tool_use_error>`
    Wrapped,
}

impl ErrorStyle {
    /// What the model reads of a failure.
    pub fn told(self, text: &str) -> String {
        match self {
            Self::Plain => format!("Error: {text}"),
            Self::Wrapped => format!("<tool_use_error>{text}</tool_use_error>"),
        }
    }
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
    /// The file has to be read first.
    #[error("{0}")]
    ReadRequired(String),
    /// It took too long, and may have happened.
    #[error("{0}")]
    Timeout(String),
    /// Who was asked gave no answer.
    #[error("{0}")]
    NoResponse(String),
    /// Who was to be asked could not be reached.
    #[error("{0}")]
    Network(String),
}

impl ToolError {
    /// The type that clients and the ledger are told.
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
