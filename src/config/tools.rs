//! Which tools there are, and what they need.

use std::sync::Arc;

use anyhow::bail;
use clap::Args;

#[cfg(feature = "faults")]
use crate::tools::witness::tools as more_tools;
use crate::tools::{Tool, builtin};

/// The tools of the service.
#[derive(Debug, Clone, Args)]
pub struct ToolArgs {
    /// The tools that sessions may have, by name [default: all that need no setting of their own]
    #[arg(long, env = "TWOSTEP_TOOLS", value_delimiter = ',', value_name = "NAMES")]
    pub tools: Option<Vec<String>>,
}

impl ToolArgs {
    /// The tools, in the order in which the model sees them.
    pub(super) fn into_tools(self) -> anyhow::Result<Vec<Arc<dyn Tool>>> {
        let options = builtin::Options::default();
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
