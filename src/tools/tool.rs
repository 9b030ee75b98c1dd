//! The trait of tools, and the context of a call.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::caller::Caller;
use super::error::{ErrorStyle, ToolError};
use super::lease::LeaseClock;
use super::output::{FileChange, Output};
use super::read_state::ReadState;
use super::sampling::SamplingAccess;
use super::workspace::{Draft, Workspace};
use crate::domain::claim::Fence;
use crate::domain::deferred_tools::DeferredDefinition;
use crate::domain::ids::{RunId, WorkerId};
use crate::domain::permission::PermissionMode;
use crate::domain::provenance::ResultOrigin;
use crate::domain::sub_agent::Task;
use crate::domain::tool::{ToolClass, ToolTiming};

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

    /// The origin of the text in the result of a call. It determines whether URLs in the result are
    /// fetched without an approval.
    fn result_origin(&self, _input: &RawValue) -> ResultOrigin {
        ResultOrigin::Service
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
    /// The deferred tools of the session.
    pub deferred_tools: Arc<[DeferredDefinition]>,
    /// The time at which the run reaches its limit of seconds, if it has one.
    pub run_limit: Option<RunLimit>,
}

/// The limit of a run in seconds, at which its calls are stopped.
#[derive(Debug, Clone, Copy)]
pub struct RunLimit {
    /// The time at which it is reached.
    pub at: Instant,
    /// The limit.
    pub seconds: u32,
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
            deferred_tools: Arc::new([]),
            run_limit: None,
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

/// The fallback of a tool that did not change a file before its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fallback {
    /// The simpler tool.
    pub simpler: &'static str,
    /// If set, the service calls the simpler tool without a request of the model.
    pub is_automatic: bool,
}
