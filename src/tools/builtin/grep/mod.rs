//! `Grep`: searches file contents with ripgrep's searcher.

mod lines;
mod search;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocking;
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::output::Output;
use crate::tools::search::Watch;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;

#[derive(Debug)]
pub(super) struct Grep;

/// A search in file contents.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GrepInput {
    /// A regular expression in Rust's syntax, such as `fn \w+\(`. A literal brace is written `\{`.
    pattern: String,
    /// The file or folder to search, relative to the workspace.
    #[serde(default = "workspace_root")]
    path: String,
    /// Searches only files whose names match this pattern, such as `*.rs` or `src/**/*.{js,ts}`,
    /// relative to `path` or absolute in the workspace.
    glob: Option<String>,
    /// Searches only files of this type, such as `rust`, `py` or `js`.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// The output: matching lines, only the paths of the files with matches, or the count of each
    /// file.
    #[serde(default)]
    output_mode: Mode,
    /// Lines to show after each match; for `content`.
    #[serde(rename = "-A", default)]
    after: usize,
    /// Lines to show before each match; for `content`.
    #[serde(rename = "-B", default)]
    before: usize,
    /// Lines to show before and after each match; for `content`.
    #[serde(rename = "-C", default)]
    around: usize,
    /// Shows line numbers; for `content`.
    #[serde(rename = "-n", default = "yes")]
    numbers: bool,
    /// Ignores the difference between upper and lower case.
    #[serde(rename = "-i", default)]
    ignore_case: bool,
    /// Allows a match to span lines; `.` then also matches the end of a line.
    #[serde(default)]
    multiline: bool,
    /// The maximum number of lines of the result.
    #[serde(default = "head_limit")]
    #[schemars(range(min = 1, max = 10_000))]
    head_limit: usize,
}

/// The output of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

fn workspace_root() -> String {
    ".".to_owned()
}

fn yes() -> bool {
    true
}

fn head_limit() -> usize {
    250
}

impl TypedTool for Grep {
    const NAME: &'static str = "Grep";
    const DESCRIPTION: &'static str = "Searches the contents of the workspace's files for a \
        regular expression, as ripgrep does, and returns the paths of the files with matches, or \
        the matching lines with output_mode `content`, sorted by path. It skips binary files, \
        hidden files and files that a .gitignore excludes, unless `glob` matches or names them, \
        and follows no symbolic links. Use it to search file contents; use Glob to find files by their names.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Fast;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Workspace;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = GrepInput;

    async fn run(&self, context: &ToolContext, input: GrepInput) -> Result<Output, ToolError> {
        let workspace = context.workspace.clone();
        let (watch, _guard) = Watch::of(&context.stop);
        blocking(move || Ok(search::search(&workspace, &input, &watch)?.into())).await
    }
}

#[cfg(test)]
pub(super) use tests::every_line;

#[cfg(test)]
mod tests;
