//! `write_file`: creates or replaces a file atomically.

use schemars::JsonSchema;
use serde::Deserialize;

use super::current_file::check_read_state;
use super::{FileOptions, blocking};
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::ToolError;
use crate::tools::output::FileChange;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

const WRITTEN: &str = "Written successfully.";

#[derive(Debug)]
pub(super) struct WriteFile(pub(super) FileOptions);

/// A file and its content.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFileInput {
    /// The file's path, relative to the workspace. Missing folders are created.
    path: String,
    /// The whole content of the file.
    content: String,
}

impl TypedTool for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = "Writes a whole file of the workspace: creates it, or \
        replaces its content. Use it when the user wants something saved or changed. Read a file \
        first if only a part of it changes, because the old content is lost. Returns a short \
        confirmation.";
    const CLASS: ToolClass = ToolClass::Checkable;
    const TIMING: ToolTiming = ToolTiming::Fast;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Workspace;
    type Input = WriteFileInput;

    async fn plan(
        &self,
        context: &ToolContext,
        input: WriteFileInput,
    ) -> Result<FileChange, ToolError> {
        let workspace = context.workspace.clone();
        let change = blocking(move || {
            workspace.check_writable(&input.path)?;
            let path = workspace.plain(&input.path)?;
            let before = workspace.hash(&path)?;
            let content = input.content.into_bytes();
            Ok(FileChange { path, before, content, result: WRITTEN.to_owned() })
        })
        .await?;
        if self.0.read_before_write {
            check_read_state(context, &change.path, change.before.as_ref()).await?;
        }
        Ok(change)
    }
}
