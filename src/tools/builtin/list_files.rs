//! `list_files`: the entries of a folder.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{blocking, visible};
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;
use crate::tools::workspace::FolderEntry;

const MAX_ENTRIES: usize = 1000;

#[derive(Debug)]
pub(super) struct ListFiles;

/// A folder to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFilesInput {
    /// The folder's path, relative to the workspace.
    #[serde(default = "workspace_root")]
    path: String,
}

fn workspace_root() -> String {
    ".".to_owned()
}

impl TypedTool for ListFiles {
    const NAME: &'static str = "list_files";
    const DESCRIPTION: &'static str = "Lists a folder of the workspace, one name per line, sorted; \
        names of folders end with a slash. Use it to find files before you read them. It does not \
        list sub-folders and does not return file contents.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Fast;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Workspace;
    type Input = ListFilesInput;

    async fn run(&self, context: &ToolContext, input: ListFilesInput) -> Result<Output, ToolError> {
        let workspace = context.workspace.clone();
        let entries = blocking(move || workspace.list(&input.path)).await?;
        Ok(lines(&entries).into())
    }
}

fn lines(entries: &[FolderEntry]) -> String {
    if entries.is_empty() {
        return "The folder is empty.".to_owned();
    }
    let mut text = String::new();
    for entry in entries.iter().take(MAX_ENTRIES) {
        let _ =
            writeln!(text, "{}{}", visible(&entry.name), if entry.is_folder { "/" } else { "" });
    }
    if entries.len() > MAX_ENTRIES {
        let _ = writeln!(text, "[{} more]", entries.len() - MAX_ENTRIES);
    }
    text
}
