//! Which tools there are, and what they need.

use std::sync::Arc;

use anyhow::bail;
use clap::{ArgAction, Args};

#[cfg(feature = "faults")]
use crate::tools::witness::tools as more_tools;
use crate::tools::builtin::FileOptions;
use crate::tools::{Tool, builtin};

/// The tools of the service.
#[derive(Debug, Clone, Args)]
pub struct ToolArgs {
    /// The tools that sessions may have, by name [default: all that need no setting of their own]
    #[arg(long, env = "TWOSTEP_TOOLS", value_delimiter = ',', value_name = "NAMES")]
    pub tools: Option<Vec<String>>,
    /// How files are read and changed.
    #[command(flatten)]
    pub files: FileArgs,
}

/// How files are read and changed.
#[derive(Debug, Clone, Args)]
pub struct FileArgs {
    /// Show a part of a file again that the model has read and that has not changed since
    #[arg(long, env = "TWOSTEP_REPEAT_READS", default_value = "true",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub repeat_reads: bool,
    /// Remind the model of malicious files, after Read and LS
    #[arg(long, env = "TWOSTEP_REMINDERS", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub reminders: bool,
    /// Let write_file replace only what the model has read, as Write does
    #[arg(long, env = "TWOSTEP_READ_BEFORE_WRITE", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub read_before_write: bool,
    /// Use a simpler tool at once when an edit was not made in time
    #[arg(long, env = "TWOSTEP_EDIT_FALLBACK", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub edit_fallback: bool,
}

impl From<FileArgs> for FileOptions {
    fn from(args: FileArgs) -> Self {
        let FileArgs { repeat_reads, reminders, read_before_write, edit_fallback } = args;
        Self { repeat_reads, reminders, read_before_write, edit_fallback }
    }
}

impl ToolArgs {
    /// The tools, in the order in which the model sees them.
    pub(super) fn into_tools(self) -> anyhow::Result<Vec<Arc<dyn Tool>>> {
        let options = builtin::Options { files: self.files.into() };
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
