//! `get_current_user`: the name of the session's user.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

#[derive(Debug)]
pub(super) struct GetCurrentUser;

/// No input.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetCurrentUserInput {}

impl TypedTool for GetCurrentUser {
    const NAME: &'static str = "get_current_user";
    const DESCRIPTION: &'static str = "Returns the name of the user that this session belongs to. \
        Use it when an answer depends on who is asking.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Fast;
    type Input = GetCurrentUserInput;

    /// Returns the name of the session's user. The name of the service's operating system account
    /// would be the same for all users, and would help attackers of the machine.
    async fn run(
        &self,
        context: &ToolContext,
        _input: GetCurrentUserInput,
    ) -> Result<Output, ToolError> {
        Ok(context.caller.user_name().await?.into())
    }
}
