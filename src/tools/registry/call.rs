//! Execution of tool calls, as a whole or in two steps: plan and apply.

use serde_json::Value;
use serde_json::value::RawValue;

use super::Registry;
use crate::domain::image::Image;
use crate::domain::source::Source;
use crate::domain::state_change::StateChange;
use crate::domain::storable::without_nul;
use crate::domain::sub_agent::Task;
use crate::domain::tool::ToolClass;
use crate::domain::tool_error::ToolErrorType;
use crate::tools::change::{self, ChangeProgress};
use crate::tools::error::ToolError;
use crate::tools::output::{FileChange, Output};
use crate::tools::tool::ToolContext;

/// The result of a call, as the model receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOutcome {
    /// The text for the model.
    pub text: String,
    /// The images that the model receives after the text.
    pub images: Vec<Image>,
    /// `true` if the call failed.
    pub is_error: bool,
    /// The type of the failure, if it has one.
    pub error_type: Option<ToolErrorType>,
    /// State changes to store in the same transaction as the result.
    pub state_changes: Vec<StateChange>,
    /// The sources of the result.
    pub sources: Vec<Source>,
    /// The name of the sandbox, if the call ran a program.
    pub sandbox: Option<&'static str>,
}

impl Registry {
    /// Executes a call. Every error is a result for the model: an unknown tool, an invalid
    /// input, a failure, a panic or a timeout.
    pub async fn call(&self, context: &ToolContext, name: &str, input: &RawValue) -> CallOutcome {
        let Some(entry) = self.entry(name) else { return self.unavailable(name) };
        if entry.tool.class() == ToolClass::Checkable {
            return match self.plan(context, name, input).await {
                Ok(change) => self.apply(context, name, change).await,
                Err(answer) => answer,
            };
        }
        let result = entry
            .in_time(context, input, async |context: &ToolContext| {
                entry.check(input)?;
                entry.tool.call(context, input).await
            })
            .await;
        entry.answer(context, result).await
    }

    /// Returns the task of the sub-agent that a call starts, or the result if it starts none.
    pub async fn task(
        &self,
        context: &ToolContext,
        name: &str,
        input: &RawValue,
    ) -> Result<Task, CallOutcome> {
        let entry = self.entry(name).ok_or_else(|| self.unavailable(name))?;
        let none = || ToolError::Failed(format!("{name} starts no sub-agent"));
        let task = entry.check(input).and_then(|()| entry.tool.task(input).ok_or_else(none));
        match task {
            Ok(task) => Ok(task),
            Err(error) => Err(entry.answer(context, Err(error)).await),
        }
    }

    /// Converts the report of a sub-agent, or its failure, into the result of the call that
    /// started it.
    pub async fn reported(
        &self,
        context: &ToolContext,
        name: &str,
        report: Result<String, String>,
    ) -> CallOutcome {
        let Some(entry) = self.entry(name) else { return self.unavailable(name) };
        entry.answer(context, report.map(Output::from).map_err(ToolError::Failed)).await
    }

    /// Plans the file change of a call, or returns the failed result.
    pub async fn plan(
        &self,
        context: &ToolContext,
        name: &str,
        input: &RawValue,
    ) -> Result<FileChange, CallOutcome> {
        let entry = self.entry(name).ok_or_else(|| self.unavailable(name))?;
        let planned = match entry.plan(context, input).await {
            Err(ToolError::Timeout(text)) => {
                self.plan_with_fallback(context, name, input, &text).await
            }
            planned => planned,
        };
        match planned {
            Ok(change) => Ok(FileChange { result: without_nul(change.result), ..change }),
            Err(error) => Err(entry.answer(context, Err(error)).await),
        }
    }

    /// Returns the file change of a call as a unified diff, or `None` if the call changes no
    /// file.
    pub async fn diff(
        &self,
        context: &ToolContext,
        name: &str,
        input: &RawValue,
    ) -> Option<String> {
        if self.class(name) != ToolClass::Checkable {
            return None;
        }
        let change = self.plan(context, name, input).await.ok()?;
        change::diff(context, change).await
    }

    /// Applies a planned change.
    pub async fn apply(
        &self,
        context: &ToolContext,
        name: &str,
        change: FileChange,
    ) -> CallOutcome {
        let Some(entry) = self.entry(name) else { return self.unavailable(name) };
        let (path, progress) = (change.path.clone(), ChangeProgress::default());
        // A change is short, and whether it was made must be known: the run waits for it.
        let context = &ToolContext { run_limit: None, ..context.clone() };
        let made = entry
            .in_time(context, RawValue::NULL, async |context: &ToolContext| {
                change::apply(context, change, &progress).await
            })
            .await;
        let made = match made {
            Err(ToolError::Timeout(text)) => change::timed_out(&progress, &path, &text),
            made => made,
        };
        entry.answer(context, made).await
    }

    /// Plans a change with this tool only, without fallback.
    pub(in crate::tools) async fn plan_by(
        &self,
        context: &ToolContext,
        name: &str,
        input: &RawValue,
    ) -> Result<FileChange, ToolError> {
        match self.entry(name) {
            Some(entry) => entry.plan(context, input).await,
            None => Err(no_tool(name)),
        }
    }

    /// Executes `work` with the deadline of this tool.
    pub(in crate::tools) async fn in_time<T>(
        &self,
        context: &ToolContext,
        name: &str,
        work: impl AsyncFnOnce(&ToolContext) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        match self.entry(name) {
            Some(entry) => entry.in_time(context, RawValue::NULL, work).await,
            None => Err(no_tool(name)),
        }
    }
}

/// Returns the error text for a call of an unknown tool.
pub fn unknown_tool(name: &str) -> String {
    let error = Value::from(format!("Unknown tool: '{name}'"));
    format!(r#"{{"error":{error}}}"#)
}

fn no_tool(name: &str) -> ToolError {
    ToolError::Failed(format!("there is no tool {name}"))
}
