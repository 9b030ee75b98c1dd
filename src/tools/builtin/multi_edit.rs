//! `MultiEdit`: several replacements in one file, applied all or none.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{FileOptions, edit};
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::output::FileChange;
use crate::tools::text::edits::{Edit, apply_all};
use crate::tools::tool::{Fallback, ToolContext};
use crate::tools::typed::TypedTool;

pub(in crate::tools) const NAME: &str = "MultiEdit";

#[derive(Debug)]
pub(super) struct MultiEdit(pub(super) FileOptions);

/// Replacements in a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::tools) struct MultiEditInput {
    /// The file's path, in the workspace.
    pub(in crate::tools) file_path: String,
    /// The replacements, applied in order, each to the result of the previous one.
    #[schemars(length(min = 1))]
    pub(in crate::tools) edits: Vec<Edit>,
}

impl TypedTool for MultiEdit {
    const NAME: &'static str = NAME;
    const DESCRIPTION: &'static str = "Makes several replacements in one file of the workspace: \
        all of them, or none if one of them fails. They are applied in order, each to the result \
        of the previous one. Read the file first, as for Edit. Returns the changed lines of each \
        edit with their numbers.";
    const CLASS: ToolClass = ToolClass::Checkable;
    const TIMING: ToolTiming = ToolTiming::Variable;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Workspace;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = MultiEditInput;

    fn fallback(&self) -> Option<Fallback> {
        Some(Fallback { simpler: edit::NAME, is_automatic: self.0.edit_fallback })
    }

    async fn plan(
        &self,
        context: &ToolContext,
        input: MultiEditInput,
    ) -> Result<FileChange, ToolError> {
        let MultiEditInput { file_path, edits } = input;
        edit::plan(context, &file_path, move |text| apply_all(text, &edits)).await
    }
}
