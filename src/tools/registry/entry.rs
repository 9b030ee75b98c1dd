//! One registered tool: validates its input, catches its panics and enforces its deadline.

use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use jsonschema::{ValidationError, Validator};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::timeout;

use super::run_limit::within_run_limit;
use super::{BadTool, CallOutcome};
use crate::domain::hidden_text::into_shown;
use crate::tools::definition::check_definition;
use crate::tools::error::ToolError;
use crate::tools::output::{FileChange, Output};
use crate::tools::results::presentable;
use crate::tools::schema_cost::is_bounded;
use crate::tools::tool::{Tool, ToolContext};

/// Maximum length of a validation message that quotes the input, in bytes.
const MAX_PROBLEM: usize = 500;

/// The message for an input that is too expensive to validate.
const TOO_MUCH: &str = "is too expensive to validate against the schema";

/// A tool with its compiled schema and serialized definition.
#[derive(Debug)]
pub(super) struct RegisteredTool {
    pub(super) tool: Arc<dyn Tool>,
    schema: Value,
    validator: Validator,
    /// The definition in model requests.
    pub(super) definition: Box<RawValue>,
}

#[derive(Serialize)]
struct Definition<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

impl RegisteredTool {
    /// Validates the definition of a tool.
    pub(super) fn new(tool: Arc<dyn Tool>) -> Result<Self, BadTool> {
        let (name, schema) = (tool.name(), tool.input_schema());
        let bad = |cause: String| BadTool::Schema { name: name.to_owned(), cause };
        let validator = check_definition(name, &schema)?;
        let description = tool.description();
        let definition = Definition { name, description, input_schema: &schema };
        let definition =
            serde_json::to_string(&definition).map_err(|error| bad(error.to_string()))?;
        // A tool server can hide instructions in descriptions. The code of a character needs no
        // escape in JSON.
        let definition = RawValue::from_string(into_shown(definition))
            .map_err(|error| bad(error.to_string()))?;
        Ok(Self { tool, schema, validator, definition })
    }

    /// Returns the validation errors of an input: JSON pointer and message.
    pub(super) fn problems(&self, input: &RawValue) -> Vec<(String, String)> {
        let value: Value = match serde_json::from_str(input.get()) {
            Ok(value) => value,
            Err(error) => return vec![(String::new(), format!("cannot be read: {error}"))],
        };
        if !is_bounded(&self.schema, &value) {
            return vec![(String::new(), TOO_MUCH.to_owned())];
        }
        let problems = self.validator.iter_errors(&value);
        problems.map(|error| (error.instance_path().to_string(), problem(&error))).collect()
    }

    /// Executes `work` within the deadline and the limit of the run. A panic or a timeout becomes an
    /// error.
    pub(super) async fn in_time<T>(
        &self,
        context: &ToolContext,
        input: &RawValue,
        work: impl AsyncFnOnce(&ToolContext) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let name = self.tool.name();
        let deadline = self.tool.deadline(input);
        let context = ToolContext { stop: context.stop.child_token(), ..context.clone() };
        // Boxed, because the future is large and the limit of the run holds it once more.
        let work = Box::pin(AssertUnwindSafe(work(&context)).catch_unwind());
        match timeout(deadline, within_run_limit(name, &context, work)).await {
            Ok(Ok(Ok(result))) => result,
            Ok(Ok(Err(_panic))) => {
                tracing::error!(tool.name = name, "tool panicked");
                Err(ToolError::Failed(format!("{name} stopped because of an internal error")))
            }
            Ok(Err(stopped)) => Err(stopped),
            Err(_elapsed) => {
                // Stops work that continues on another thread.
                context.stop.cancel();
                let seconds = deadline.as_secs();
                Err(ToolError::Timeout(format!("{name} timed out after {seconds} s")))
            }
        }
    }

    /// Plans the file change of a call.
    pub(super) async fn plan(
        &self,
        context: &ToolContext,
        input: &RawValue,
    ) -> Result<FileChange, ToolError> {
        self.in_time(context, input, async |context: &ToolContext| {
            self.check(input)?;
            self.tool.plan(context, input).await
        })
        .await
    }

    /// Converts a result into the form that the model receives.
    pub(super) async fn answer(
        &self,
        context: &ToolContext,
        result: Result<Output, ToolError>,
    ) -> CallOutcome {
        match result {
            Ok(Output { text, images, state_changes, sources }) => CallOutcome {
                text: presentable(context, text).await,
                images,
                is_error: false,
                error_type: None,
                state_changes,
                sources,
                sandbox: self.tool.sandbox(),
            },
            Err(error) => CallOutcome {
                text: self
                    .tool
                    .error_style()
                    .format(&presentable(context, error.to_string()).await),
                images: Vec::new(),
                is_error: true,
                error_type: error.error_type(),
                state_changes: Vec::new(),
                sources: Vec::new(),
                sandbox: self.tool.sandbox(),
            },
        }
    }

    /// Validates an input. The error text is for the model.
    pub(super) fn check(&self, input: &RawValue) -> Result<(), ToolError> {
        let name = self.tool.name();
        let value: Value = serde_json::from_str(input.get())
            .map_err(|error| ToolError::Invalid(format!("invalid input for {name}: {error}")))?;
        if value.get("INVALID_JSON").is_some() {
            return Err(ToolError::Invalid(format!("the input for {name} is not valid JSON")));
        }
        if !is_bounded(&self.schema, &value) {
            return Err(ToolError::Invalid(format!("invalid input for {name}: it {TOO_MUCH}")));
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

/// Returns the message of a validation error, without the input if it is long.
fn problem(error: &ValidationError<'_>) -> String {
    let text = error.to_string();
    if text.len() > MAX_PROBLEM { error.masked().to_string() } else { text }
}
