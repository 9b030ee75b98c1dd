//! Which tools there are, and what they need.

use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::Args;

use crate::tools::builtin::bash::Bash;
use crate::tools::sandbox::{Sandbox, Setting};
#[cfg(feature = "faults")]
use crate::tools::witness::tools as more_tools;
use crate::tools::{Tool, TypedTool as _, builtin};

/// The tools of the service.
#[derive(Debug, Clone, Args)]
pub struct ToolArgs {
    /// The tools that sessions may have, by name [default: all that need no setting of their own]
    #[arg(long, env = "TWOSTEP_TOOLS", value_delimiter = ',', value_name = "NAMES")]
    pub tools: Option<Vec<String>>,
    /// In which sandbox Bash runs; there is none without one
    #[arg(long, env = "TWOSTEP_BASH", value_enum, default_value = "off", value_name = "LEVEL")]
    pub bash: Setting,
    /// Seconds that a command of Bash may take, unless its call says otherwise
    #[arg(long, env = "TWOSTEP_BASH_TIMEOUT", default_value_t = 120, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=Bash::MAX_TIMEOUT.as_secs()))]
    pub bash_timeout: u64,
}

impl ToolArgs {
    /// Where commands run, if one of the tools runs commands.
    pub(super) fn sandbox(&self) -> Option<Sandbox> {
        let has_bash =
            self.tools.as_ref().is_none_or(|names| names.iter().any(|name| name == Bash::NAME));
        Sandbox::new(self.bash).filter(|_| has_bash)
    }

    /// The tools, in the order in which the model sees them.
    pub(super) fn into_tools(
        self,
        sandbox: Option<&Sandbox>,
    ) -> anyhow::Result<Vec<Arc<dyn Tool>>> {
        let timeout = Duration::from_secs(self.bash_timeout);
        let bash = sandbox.cloned().map(|sandbox| Bash::new(sandbox, timeout));
        let options = builtin::Options { bash };
        let mut tools = builtin::all(&options);
        if let Some(names) = &self.tools {
            let is_known = |name: &&String| tools.iter().any(|tool| tool.name() == name.as_str());
            if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
                bail!("--tools names {unknown:?}, which is no tool, or needs a setting of its own");
            }
            tools.retain(|tool| names.iter().any(|name| name == tool.name()));
        }
        tools.extend(more_tools());
        Ok(tools)
    }
}

#[cfg(not(feature = "faults"))]
fn more_tools() -> Vec<Arc<dyn Tool>> {
    Vec::new()
}
