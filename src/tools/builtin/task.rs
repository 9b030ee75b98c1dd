//! `Task`: starts a sub-agent. The worker starts it and waits for it.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::provenance::ResultOrigin;
use crate::domain::sub_agent::{TASK, Task};
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::ErrorStyle;
use crate::tools::typed::TypedTool;

#[derive(Debug)]
pub(super) struct StartTask;

/// The task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartTaskInput {
    /// A title of three to five words, for people who follow the work.
    #[schemars(length(min = 1, max = 200))]
    description: String,
    /// The whole task. The sub-agent does not see this conversation: include everything that it has
    /// to know, and state what its answer must contain.
    #[schemars(length(min = 1))]
    prompt: String,
    /// The name of the sub-agent. If absent, the general sub-agent is used.
    #[serde(default)]
    subagent_type: Option<String>,
}

impl TypedTool for StartTask {
    const NAME: &'static str = TASK;
    const DESCRIPTION: &'static str = "Gives a task to a sub-agent, which works on it in a \
        conversation of its own, in the same workspace. The result is the last message of the \
        sub-agent. Use it for work of many steps whose details you do not need, and call it \
        several times in one reply for tasks that do not depend on each other: their sub-agents \
        work at the same time. Do not use it for work that needs only one or two calls.";
    const CLASS: ToolClass = ToolClass::SubAgent;
    const TIMING: ToolTiming = ToolTiming::Variable;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Directed;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = StartTaskInput;

    fn task(input: StartTaskInput) -> Option<Task> {
        let StartTaskInput { description, prompt, subagent_type: agent } = input;
        Some(Task { description, prompt, agent })
    }
}
