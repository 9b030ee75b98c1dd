//! `write_file`: a whole file, old or new, never half.

use schemars::JsonSchema;
use serde::Deserialize;

use super::blocking;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::workspace::hash;
use crate::tools::{FileChange, Output, ToolContext, ToolError, TypedTool};

const WRITTEN: &str = "Written successfully.";

#[derive(Debug)]
pub(super) struct WriteFile;

/// What to write.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// The file's path, relative to the workspace. Folders on the way are made.
    path: String,
    /// The whole content of the file.
    content: String,
}

impl TypedTool for WriteFile {
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str = "Writes a whole file of the workspace: makes it, or replaces \
        what was in it. Use it when the user wants something saved or changed. \
        Read a file first when only a part of it is to change, because the old content is lost. \
        Returns a short confirmation.";
    const CLASS: ToolClass = ToolClass::Checkable;
    const TIMING: ToolTiming = ToolTiming::Fast;
    type Input = Input;

    async fn run(&self, context: &ToolContext, input: Input) -> Result<Output, ToolError> {
        let context = context.clone();
        blocking(move || {
            let may_finish = || context.may_change();
            let content = input.content.as_bytes();
            context.workspace.write(&input.path, content, &context.draft(), may_finish)?;
            Ok(WRITTEN.to_owned().into())
        })
        .await
    }

    async fn planned_change(
        &self,
        context: &ToolContext,
        input: Input,
    ) -> Result<FileChange, ToolError> {
        let (workspace, draft) = (context.workspace.clone(), context.draft());
        blocking(move || {
            workspace.discard_drafts(&input.path, &draft)?;
            let before = workspace.hash(&input.path)?;
            let after = hash(input.content.as_bytes());
            Ok(FileChange { before, after, result: WRITTEN.to_owned() })
        })
        .await
    }
}
