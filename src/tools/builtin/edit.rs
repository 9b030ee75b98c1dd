//! `Edit`: replaces a text in a file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::current_file::CurrentFile;
use super::notebook_edit::is_notebook;
use super::{FileOptions, blocking};
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::output::FileChange;
use crate::tools::text::edits::{Edit as Replacement, apply};
use crate::tools::tool::{Fallback, ToolContext};
use crate::tools::typed::TypedTool;

pub(in crate::tools) const NAME: &str = "Edit";

#[derive(Debug)]
pub(super) struct Edit(pub(super) FileOptions);

/// A replacement in a file.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::tools) struct EditInput {
    /// The file's path, in the workspace.
    file_path: String,
    /// The text to replace, exactly as it is in the file, without the line numbers of Read. Empty
    /// to create a new file.
    old_string: String,
    /// The new text.
    new_string: String,
    /// Replaces every occurrence. If false, there must be exactly one.
    #[serde(default)]
    replace_all: bool,
}

impl EditInput {
    pub(in crate::tools) fn new(file_path: String, edit: Replacement) -> Self {
        let Replacement { old_string, new_string, replace_all } = edit;
        Self { file_path, old_string, new_string, replace_all }
    }

    /// Splits the input into the path and the replacement.
    pub(in crate::tools) fn parts(self) -> (String, Replacement) {
        let Self { file_path, old_string, new_string, replace_all } = self;
        (file_path, Replacement { old_string, new_string, replace_all })
    }
}

impl TypedTool for Edit {
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Replaces a text in a file of the workspace. Read the file \
        first: a file that was not read, or has changed since, is refused. old_string must occur \
        exactly once unless replace_all is set; include enough of the surrounding text. Returns \
        the changed lines with their numbers. Use MultiEdit for several changes of one file, and \
        Write to create or replace a whole file.";
    const CLASS: ToolClass = ToolClass::Checkable;
    const TIMING: ToolTiming = ToolTiming::Variable;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Workspace;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = EditInput;

    fn fallback(&self) -> Option<Fallback> {
        Some(Fallback { simpler: super::write::NAME, is_automatic: self.0.edit_fallback })
    }

    async fn plan(&self, context: &ToolContext, input: EditInput) -> Result<FileChange, ToolError> {
        let (path, edit) = input.parts();
        plan(context, &path, move |text| apply(text, &edit)).await
    }
}

/// Plans the change of a file by an edit function.
pub(super) async fn plan(
    context: &ToolContext,
    path: &str,
    edit: impl FnOnce(&str) -> Result<String, ToolError> + Send + 'static,
) -> Result<FileChange, ToolError> {
    if is_notebook(path) {
        let text = format!("{path} is a notebook; use NotebookEdit to change its cells");
        return Err(ToolError::Invalid(text));
    }
    let current = CurrentFile::find_read(context, path).await?;
    current.check_exact(path)?;
    let path = path.to_owned();
    blocking(move || {
        let changed = edit(&current.file.text).map_err(|error| match (&current.before, error) {
            (None, ToolError::Invalid(_)) => ToolError::Failed(format!(
                "{path}: there is no such file; to create it, use an empty old_string"
            )),
            (_, error) => error,
        })?;
        Ok(current.change(&path, &changed))
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use tempfile::TempDir;

    use super::*;
    use crate::tools::workspace::Workspace;

    #[tokio::test]
    async fn an_edit_runs_on_a_blocking_thread() {
        let folder = TempDir::new().unwrap();
        let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
        let (edits_on, edited_on) = channel();
        let edit = move |_: &str| {
            edits_on.send(thread::current().id()).unwrap();
            Ok("new\n".to_owned())
        };
        assert_eq!(plan(&context, "a", edit).await.unwrap().content, b"new\n");
        assert_ne!(edited_on.recv().unwrap(), thread::current().id());
    }
}
