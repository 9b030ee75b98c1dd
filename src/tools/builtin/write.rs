//! `Write`: creates a file, or replaces a file that the model has read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocking;
use super::current_file::CurrentFile;
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::output::FileChange;
use crate::tools::text::edits::with_line_ends_of;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

pub(in crate::tools) const NAME: &str = "Write";

#[derive(Debug)]
pub(super) struct Write;

/// A file and its content.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::tools) struct WriteInput {
    /// The file's path, in the workspace. Missing folders are created.
    pub(in crate::tools) file_path: String,
    /// The whole content of the file.
    pub(in crate::tools) content: String,
}

impl TypedTool for Write {
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Writes a whole file of the workspace: creates it, or \
        replaces its content. An existing file must have been read first, and must not have \
        changed since. Prefer Edit or MultiEdit to change a part of a file. Returns the changed \
        lines with their numbers.";
    const CLASS: ToolClass = ToolClass::Checkable;
    const TIMING: ToolTiming = ToolTiming::Fast;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Workspace;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = WriteInput;

    async fn plan(
        &self,
        context: &ToolContext,
        input: WriteInput,
    ) -> Result<FileChange, ToolError> {
        let WriteInput { file_path, content } = input;
        let current = CurrentFile::find_read(context, &file_path).await?;
        blocking(move || {
            let content = with_line_ends_of(&current.file.text, &content);
            Ok(current.change(&file_path, &content))
        })
        .await
    }
}
