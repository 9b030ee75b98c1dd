//! `ExitPlanMode`: asks the user to approve the plan. The call runs after the approval.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::provenance::ResultOrigin;
use crate::domain::state_change::StateChange;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::output::Output;
use crate::tools::policy::EXIT_PLAN_MODE;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

const APPROVED: &str = "User has approved your plan. You can now start coding. Start with \
    updating your todo list if applicable";
const NOT_PLANNING: &str = "Plan mode is off: there is nothing to approve. Continue with the work.";

#[derive(Debug)]
pub(super) struct ExitPlanMode;

/// The plan.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExitPlanModeInput {
    /// The steps of the plan, for the user to approve. Markdown is supported.
    #[serde(rename = "plan")]
    _plan: String,
}

impl TypedTool for ExitPlanMode {
    const NAME: &'static str = EXIT_PLAN_MODE;
    const DESCRIPTION: &'static str = "Shows your plan to the user and asks for approval to begin. \
        Use it in plan mode, when the plan of a task that changes something is ready. Do not use \
        it for questions that you can answer by reading.";
    const CLASS: ToolClass = ToolClass::Pure;
    const IS_PARALLEL: bool = false;
    const TIMING: ToolTiming = ToolTiming::Immediate;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Model;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = ExitPlanModeInput;

    async fn run(
        &self,
        context: &ToolContext,
        _input: ExitPlanModeInput,
    ) -> Result<Output, ToolError> {
        Ok(match context.after_plan {
            Some(mode) => Output::from(APPROVED.to_owned())
                .with_state_change(StateChange::PermissionMode(mode)),
            None => NOT_PLANNING.to_owned().into(),
        })
    }
}
