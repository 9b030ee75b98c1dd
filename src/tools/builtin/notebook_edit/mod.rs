//! `NotebookEdit`: changes one cell of a notebook.

mod cells;
mod names;
mod show;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocking;
use super::current_file::CurrentFile;
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::output::FileChange;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;
use crate::tools::workspace::hash;

use cells::Notebook;
pub(super) use show::shown;

#[derive(Debug)]
pub(super) struct NotebookEdit;

/// A change of one cell.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NotebookEditInput {
    /// The notebook's path, in the workspace.
    notebook_path: String,
    /// The ID or the name of the cell, as Read shows it. A new cell is inserted after it, or at the
    /// top if it is absent.
    #[serde(default)]
    cell_id: Option<String>,
    /// The source of the cell; ignored when a cell is deleted.
    new_source: String,
    /// The type of the cell. If absent, the type does not change.
    #[serde(default)]
    cell_type: Option<CellType>,
    /// The operation.
    #[serde(default)]
    edit_mode: EditMode,
}

/// The type of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum CellType {
    Code,
    Markdown,
    Raw,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum EditMode {
    #[default]
    Replace,
    Insert,
    Delete,
}

impl TypedTool for NotebookEdit {
    const NAME: &'static str = "NotebookEdit";
    const DESCRIPTION: &'static str = "Changes one cell of a Jupyter notebook in the workspace: \
        replaces its source, inserts a new cell after it, or deletes it. Read the notebook first \
        to get the IDs of its cells. A cell without an ID has a name that changes with its content; \
        the result of a change states the new name. The outputs of a replaced code cell are \
        removed. No code is executed.";
    const CLASS: ToolClass = ToolClass::Checkable;
    const TIMING: ToolTiming = ToolTiming::Fast;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Workspace;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = NotebookEditInput;

    async fn plan(
        &self,
        context: &ToolContext,
        input: NotebookEditInput,
    ) -> Result<FileChange, ToolError> {
        let path = input.notebook_path.as_str();
        if !is_notebook(path) {
            let text =
                format!("{path} is not a notebook: its name does not end with .ipynb; use Edit");
            return Err(ToolError::Invalid(text));
        }
        let current = CurrentFile::find_read(context, path).await?;
        if current.before.is_none() {
            return Err(ToolError::Failed(format!("{path}: there is no such file or folder")));
        }
        current.check_exact(path)?;
        let call = context.tool_use_id.clone();
        blocking(move || {
            let CurrentFile { path, before, file } = current;
            let (text, result) = edited(&file.text, &input, &call)?;
            Ok(FileChange { path, before, content: file.bytes_of(&text), result })
        })
        .await
    }
}

/// Returns whether the name of a file is that of a notebook.
pub(super) fn is_notebook(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, ending)| ending.eq_ignore_ascii_case("ipynb"))
}

/// Applies the edit. Returns the new text and the result for the model.
fn edited(
    text: &str,
    input: &NotebookEditInput,
    call: &str,
) -> Result<(String, String), ToolError> {
    let NotebookEditInput { cell_id, new_source: source, cell_type, edit_mode, .. } = input;
    let invalid = |text: &str| ToolError::Invalid(text.to_owned());
    let notebook = parsed(text)?;
    let place = cell_id.as_ref().map(|name| found(&notebook, name)).transpose()?;
    match (edit_mode, place) {
        (EditMode::Insert, place) => {
            let cell_type =
                cell_type.ok_or_else(|| invalid("cell_type is required to insert a cell"))?;
            let seed = hash(format!("{call} {source}").as_bytes());
            let (text, place) = notebook.inserted(place, cell_type, source, &seed);
            let name = parsed(&text)?.name(place).to_owned();
            Ok((text, format!("Inserted cell {name} with {source}")))
        }
        (_, None) => Err(invalid("cell_id is required to replace or delete a cell")),
        (EditMode::Replace, Some(place)) => {
            let text = notebook.replaced(place, *cell_type, source)?;
            let (old, new) = (notebook.name(place), parsed(&text)?.name(place).to_owned());
            let renamed =
                if old == new { String::new() } else { format!(", whose name is now {new},") };
            Ok((text, format!("Updated cell {old}{renamed} with {source}")))
        }
        (EditMode::Delete, Some(place)) => {
            Ok((notebook.without(place), format!("Deleted cell {}", notebook.name(place))))
        }
    }
}

fn parsed(text: &str) -> Result<Notebook<'_>, ToolError> {
    Notebook::read(text)
        .map_err(|cause| ToolError::Failed(format!("the file is not a notebook: {cause}")))
}

/// Returns the index of a cell by its name.
fn found(notebook: &Notebook<'_>, name: &str) -> Result<usize, ToolError> {
    notebook.find(name).ok_or_else(|| {
        let names = notebook.names();
        if notebook.has_lasting_names() {
            return ToolError::Invalid(format!("there is no cell {name:?}; the cells are {names}"));
        }
        ToolError::ReadRequired(format!(
            "there is no cell {name:?}. The name of a cell without an ID of its own changes when \
             the cell changes, or when cells with the same content do: read the notebook again; \
             the cells are {names}"
        ))
    })
}

#[cfg(test)]
mod tests;
