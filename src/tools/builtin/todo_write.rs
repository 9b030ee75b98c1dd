//! `TodoWrite`: the todo list of the model, which users can also see.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::provenance::ResultOrigin;
use crate::domain::state_change::{StateChange, Todo};
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

const MODIFIED: &str = "Todos have been modified successfully. Ensure that you continue to use \
    the todo list to track your progress. Please proceed with the current tasks if applicable";

#[derive(Debug)]
pub(super) struct TodoWrite;

/// The list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TodoWriteInput {
    /// All items. The list replaces the previous one.
    todos: Vec<Todo>,
}

impl TypedTool for TodoWrite {
    const NAME: &'static str = "TodoWrite";
    const DESCRIPTION: &'static str = "Keeps a list of the steps of your work, which the user can \
        see. Use it when a task has three or more steps, when the user names several tasks, and \
        whenever a step begins or ends. Send the whole list each time. Have one step in_progress \
        at a time, and mark it completed as soon as it is finished. Do not use it for a task of \
        one step.";
    // Two lists in one round are applied in order, and the later one replaces the earlier one.
    const IS_PARALLEL: bool = false;
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Immediate;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Model;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = TodoWriteInput;

    async fn run(
        &self,
        _context: &ToolContext,
        input: TodoWriteInput,
    ) -> Result<Output, ToolError> {
        Ok(Output::from(MODIFIED.to_owned()).with_state_change(StateChange::Todos(input.todos)))
    }
}
