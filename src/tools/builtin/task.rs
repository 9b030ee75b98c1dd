//! `Task`: starts a sub-agent. The worker starts it and waits for it.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::sub_agent::{TASK, Task};
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::{ErrorStyle, TypedTool};

#[derive(Debug)]
pub(super) struct StartTask;

/// The task.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// What it is about, in three to five words, for those who watch.
    #[schemars(length(min = 1, max = 200))]
    description: String,
    /// The whole task. The sub-agent sees nothing of this conversation: name all that it has to
    /// know, and what its answer is to say.
    #[schemars(length(min = 1))]
    prompt: String,
    /// The name of the sub-agent; the general one where absent.
    #[serde(default)]
    subagent_type: Option<String>,
}

impl TypedTool for StartTask {
    const NAME: &'static str = TASK;
    const DESCRIPTION: &'static str = "Gives a task to a sub-agent, which works on it in a \
        conversation of its own, in the same workspace, and answers once, with its last message: \
        that is what you get. Use it for work of many steps whose details you do not need, and \
        call it several times in one reply for tasks that do not depend on each other: they are \
        worked on at the same time. Not for what one or two calls of your own would do.";
    const CLASS: ToolClass = ToolClass::Child;
    const TIMING: ToolTiming = ToolTiming::Variable;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = Input;

    fn task(input: Input) -> Option<Task> {
        let Input { description, prompt, subagent_type: agent } = input;
        Some(Task { description, prompt, agent })
    }
}
