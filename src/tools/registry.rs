//! The tools of a service: their definitions as the model sees them, and how a call is made.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use jsonschema::{ValidationError, Validator};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::timeout;

use super::results::{presentable, without_nul};
use super::{
    ErrorStyle, FileChange, Output, Tool, ToolContext, ToolError, change, check_definition,
};
use crate::domain::note::Note;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::domain::tool_error::ToolErrorType;

/// Bytes of a text that says what is wrong with an input and repeats it.
const MAX_PROBLEM: usize = 500;

/// A tool that cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum BadTool {
    /// The model refuses such a name.
    #[error("the tool name {0:?} is not 1 to 64 of a-z, A-Z, 0-9, _ and -")]
    Name(String),
    /// Two tools of one name.
    #[error("there are two tools of the name {0}")]
    Repeated(String),
    /// The schema is not one.
    #[error("the input schema of {name} is not usable: {cause}")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong with it.
        cause: String,
    },
}

impl BadTool {
    /// Whether it is the name that is wrong.
    pub const fn is_name(&self) -> bool {
        match self {
            Self::Name(_) | Self::Repeated(_) => true,
            Self::Schema { .. } => false,
        }
    }
}

#[derive(Debug)]
struct Entry {
    tool: Arc<dyn Tool>,
    validator: Validator,
    definition: Box<RawValue>,
}

/// The tools of a service, in the order in which the model sees them.
#[derive(Debug, Default)]
pub struct Registry {
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

#[derive(Serialize)]
struct Definition<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Value,
}

/// One tool of the catalogue.
#[derive(Debug, Clone, Serialize, utoipa::ToSchema)]
pub struct CatalogEntry {
    /// The name that the model uses.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// The JSON Schema of its input.
    #[schema(value_type = Object)]
    pub input_schema: Value,
    /// What it may do to the world.
    pub class: ToolClass,
    /// How long it usually takes.
    pub timing: ToolTiming,
    /// How long a call may take, in milliseconds, unless its input says otherwise.
    pub deadline_ms: u64,
    /// Whether calls of it may run beside others of their round.
    pub parallel: bool,
}

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
    /// In what confinement the call ran, if it was a program.
    pub sandbox: Option<&'static str>,
}

impl Registry {
    /// Checks and takes the tools.
    pub fn new(tools: Vec<Arc<dyn Tool>>) -> Result<Self, BadTool> {
        let mut registry = Self::default();
        for tool in tools {
            registry.add(tool)?;
        }
        Ok(registry)
    }

    fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), BadTool> {
        let name = tool.name().to_owned();
        let bad = |cause: String| BadTool::Schema { name: name.clone(), cause };
        let input_schema = tool.input_schema();
        let validator = check_definition(&name, &input_schema)?;
        let definition = Definition { name: &name, description: tool.description(), input_schema };
        let definition = to_raw_value(&definition).map_err(|error| bad(error.to_string()))?;
        if self.by_name.insert(name.clone(), self.entries.len()).is_some() {
            return Err(BadTool::Repeated(name));
        }
        self.entries.push(Entry { tool, validator, definition });
        Ok(())
    }

    /// The definitions for a session: all tools, or those that are named, in their fixed order.
    /// A name that is not known is given back.
    pub fn definitions(&self, only: Option<&[String]>) -> Result<Box<RawValue>, String> {
        if let Some(unknown) =
            only.into_iter().flatten().find(|name| !self.by_name.contains_key(*name))
        {
            return Err(unknown.clone());
        }
        let wanted = |entry: &&Entry| {
            only.is_none_or(|names| names.iter().any(|name| name == entry.tool.name()))
        };
        let definitions: Vec<&RawValue> =
            self.entries.iter().filter(wanted).map(|entry| entry.definition.as_ref()).collect();
        to_raw_value(&definitions).map_err(|error| error.to_string())
    }

    /// All tools.
    pub fn catalog(&self) -> Vec<CatalogEntry> {
        self.entries
            .iter()
            .map(|Entry { tool, .. }| CatalogEntry {
                name: tool.name().to_owned(),
                description: tool.description().to_owned(),
                input_schema: tool.input_schema(),
                class: tool.class(),
                timing: tool.timing(),
                deadline_ms: millis(tool.deadline(RawValue::NULL)),
                parallel: tool.runs_in_parallel(),
            })
            .collect()
    }

    /// What a tool may do to the world. A tool that is not known does nothing.
    pub fn class(&self, name: &str) -> ToolClass {
        self.entry(name).map_or(ToolClass::Pure, |entry| entry.tool.class())
    }

    /// How long a tool usually takes; none for one that is not known.
    pub fn timing(&self, name: &str) -> Option<ToolTiming> {
        self.entry(name).map(|entry| entry.tool.timing())
    }

    /// Whether calls of a tool may run beside others of their round, which only those may that
    /// change nothing. A tool that is not known is in nobody's way.
    pub fn runs_in_parallel(&self, name: &str) -> bool {
        self.class(name) == ToolClass::Pure
            && self.entry(name).is_none_or(|entry| entry.tool.runs_in_parallel())
    }

    /// What the model reads of a failure, in the style of a tool.
    pub fn error_text(&self, name: &str, text: &str) -> String {
        let style = self.entry(name).map(|entry| entry.tool.error_style());
        style.unwrap_or(ErrorStyle::Plain).told(text)
    }

    /// What is wrong with an input, and where, as a pointer into it; nothing for one that fits.
    pub fn input_problems(&self, name: &str, input: &RawValue) -> Vec<(String, String)> {
        let whole = |message: String| vec![(String::new(), message)];
        let Some(entry) = self.entry(name) else { return whole(format!("there is no {name}")) };
        let value: Value = match serde_json::from_str(input.get()) {
            Ok(value) => value,
            Err(error) => return whole(format!("cannot be read: {error}")),
        };
        let problems = entry.validator.iter_errors(&value);
        problems.map(|error| (error.instance_path().to_string(), problem(&error))).collect()
    }

    /// Makes a call. Whatever goes wrong is an answer for the model: an unknown name, an input
    /// that does not fit, a failure, a panic, a missed deadline.
    pub async fn call(&self, context: &ToolContext, name: &str, input: &RawValue) -> Answer {
        let Some(entry) = self.entry(name) else { return unknown(name) };
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

    /// Plans the change of one file that a call comes to, or says why there is none.
    pub async fn plan(
        &self,
        context: &ToolContext,
        name: &str,
        input: &RawValue,
    ) -> Result<FileChange, Answer> {
        let entry = self.entry(name).ok_or_else(|| unknown(name))?;
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
        let Some(entry) = self.entry(name) else { return unknown(name) };
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

    /// The tool of this name, if there is one.
    pub(super) fn tool(&self, name: &str) -> Option<&dyn Tool> {
        self.entry(name).map(|entry| entry.tool.as_ref())
    }

    /// Plans a change by this tool and no other.
    pub(super) async fn plan_by(
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
    pub(super) async fn in_time<T>(
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

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).and_then(|index| self.entries.get(*index))
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

fn unknown(name: &str) -> Answer {
    let text = unknown_tool(name);
    Answer { text, is_error: true, error_type: None, notes: Vec::new(), sandbox: None }
}

/// What is wrong with an input, without the input where that is long.
fn problem(error: &ValidationError<'_>) -> String {
    let text = error.to_string();
    if text.len() > MAX_PROBLEM { error.masked().to_string() } else { text }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl Entry {
    /// Does a part of a call, and neither a panic nor the lack of an end gets further than here.
    async fn in_time<T>(
        &self,
        context: &ToolContext,
        input: &RawValue,
        work: impl AsyncFnOnce(&ToolContext) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let name = self.tool.name();
        let deadline = self.tool.deadline(input);
        let context = ToolContext { stop: context.stop.child_token(), ..context.clone() };
        match timeout(deadline, AssertUnwindSafe(work(&context)).catch_unwind()).await {
            Ok(Ok(result)) => result,
            Ok(Err(_panic)) => {
                tracing::error!(tool.name = name, "a tool panicked");
                Err(ToolError::Failed(format!("{name} stopped because of a defect of its own")))
            }
            Err(_elapsed) => {
                // What it does on a thread of its own hears that it is too late.
                context.stop.cancel();
                let seconds = deadline.as_secs();
                Err(ToolError::Timeout(format!("{name} timed out after {seconds} s")))
            }
        }
    }

    async fn plan(&self, context: &ToolContext, input: &RawValue) -> Result<FileChange, ToolError> {
        self.in_time(context, input, async |context: &ToolContext| {
            self.check(input)?;
            self.tool.plan(context, input).await
        })
        .await
    }

    /// A result in the words of the model.
    async fn answer(&self, context: &ToolContext, result: Result<Output, ToolError>) -> Answer {
        match result {
            Ok(Output { text, notes }) => Answer {
                text: presentable(context, text).await,
                is_error: false,
                error_type: None,
                notes,
                sandbox: self.tool.sandbox(),
            },
            Err(error) => Answer {
                text: self.tool.error_style().told(&presentable(context, error.to_string()).await),
                is_error: true,
                error_type: error.error_type(),
                notes: Vec::new(),
                sandbox: self.tool.sandbox(),
            },
        }
    }

    fn check(&self, input: &RawValue) -> Result<(), ToolError> {
        let name = self.tool.name();
        let value: Value = serde_json::from_str(input.get())
            .map_err(|error| ToolError::Invalid(format!("invalid input for {name}: {error}")))?;
        if value.get("INVALID_JSON").is_some() {
            return Err(ToolError::Invalid(format!("the input for {name} is not valid JSON")));
        }
        let mut problems = String::new();
        for error in self.validator.iter_errors(&value) {
            let place = error.instance_path().to_string();
            let at = if place.is_empty() { String::new() } else { format!(" at {place}") };
            let between = if problems.is_empty() { "" } else { "; " };
            let _ = write!(problems, "{between}{}{at}", problem(&error));
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(ToolError::Invalid(format!("invalid input for {name}: {problems}")))
    }
}

#[cfg(test)]
mod tests;
