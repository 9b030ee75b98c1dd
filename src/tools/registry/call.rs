//! How a call is made, whole or in parts.

use serde_json::Value;
use serde_json::value::RawValue;

use super::Registry;
use crate::domain::note::Note;
use crate::domain::source::Source;
use crate::domain::sub_agent::Task;
use crate::domain::tool::ToolClass;
use crate::domain::tool_error::ToolErrorType;
use crate::tools::results::without_nul;
use crate::tools::{FileChange, Output, ToolContext, ToolError, change};

/// How a call ended, in the words of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What the model reads.
    pub text: String,
    /// Whether the call failed.
    pub is_error: bool,
    /// Of what type the failure was, if it has one.
    pub error_type: Option<ToolErrorType>,
    /// What is to be stored together with the result.
    pub notes: Vec<Note>,
    /// What the result rests on.
    pub sources: Vec<Source>,
    /// In what confinement the call ran, if it was a program.
    pub sandbox: Option<&'static str>,
}

impl Registry {
    /// Makes a call. Whatever goes wrong is an answer for the model: an unknown name, an input
    /// that does not fit, a failure, a panic, a missed deadline.
    pub async fn call(&self, context: &ToolContext, name: &str, input: &RawValue) -> Answer {
        let Some(entry) = self.entry(name) else { return self.missing(name) };
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

    /// What the sub-agent is to do that a call starts, or why it starts none.
    pub async fn task(
        &self,
        context: &ToolContext,
        name: &str,
        input: &RawValue,
    ) -> Result<Task, Answer> {
        let entry = self.entry(name).ok_or_else(|| self.missing(name))?;
        let none = || ToolError::Failed(format!("{name} starts no sub-agent"));
        let task = entry.check(input).and_then(|()| entry.tool.task(input).ok_or_else(none));
        match task {
            Ok(task) => Ok(task),
            Err(error) => Err(entry.answer(context, Err(error)).await),
        }
    }

    /// What a sub-agent left, or why it left nothing, as the answer to the call that started it.
    pub async fn reported(
        &self,
        context: &ToolContext,
        name: &str,
        report: Result<String, String>,
    ) -> Answer {
        let Some(entry) = self.entry(name) else { return self.missing(name) };
        entry.answer(context, report.map(Output::from).map_err(ToolError::Failed)).await
    }

    /// Plans the change of one file that a call comes to, or says why there is none.
    pub async fn plan(
        &self,
        context: &ToolContext,
        name: &str,
        input: &RawValue,
    ) -> Result<FileChange, Answer> {
        let entry = self.entry(name).ok_or_else(|| self.missing(name))?;
        let planned = match entry.plan(context, input).await {
            Err(ToolError::Timeout(text)) => self.plan_again(context, name, input, &text).await,
            planned => planned,
        };
        match planned {
            Ok(change) => Ok(FileChange { result: without_nul(change.result), ..change }),
            Err(error) => Err(entry.answer(context, Err(error)).await),
        }
    }

    /// What a call would change of a file, as a unified diff; none if it changes none.
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

    /// Makes a change that was planned.
    pub async fn apply(&self, context: &ToolContext, name: &str, change: FileChange) -> Answer {
        let Some(entry) = self.entry(name) else { return self.missing(name) };
        let wanted = self.wanted(name, &change);
        let made = entry
            .in_time(context, RawValue::NULL, async |context: &ToolContext| {
                change::apply(context, change).await
            })
            .await;
        let made = match made {
            Err(ToolError::Timeout(text)) => self.look_again(context, name, wanted, &text).await,
            made => made,
        };
        entry.answer(context, made).await
    }

    /// Plans a change by this tool and no other.
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

    /// Does something in the place of this tool, in the time that the tool has.
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

/// What the model reads of a call of a tool that it does not have.
pub fn unknown_tool(name: &str) -> String {
    let error = Value::from(format!("Unknown tool: '{name}'"));
    format!(r#"{{"error":{error}}}"#)
}

fn no_tool(name: &str) -> ToolError {
    ToolError::Failed(format!("there is no tool {name}"))
}
