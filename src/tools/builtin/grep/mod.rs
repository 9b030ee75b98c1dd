//! `Grep`: searches file contents with ripgrep's searcher.

mod lines;
mod search;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocking;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::search::Watch;
use crate::tools::{ErrorStyle, Output, ToolContext, ToolError, TypedTool};

#[derive(Debug)]
pub(super) struct Grep;

/// What to look for, and where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// A regular expression in Rust's syntax, such as `fn \w+\(`. A brace that is meant as itself
    /// is written `\{`.
    pattern: String,
    /// The file or folder to look in, relative to the workspace.
    #[serde(default = "workspace_itself")]
    path: String,
    /// Only files that this pattern fits, such as `*.rs` or `src/**/*.{js,ts}`.
    glob: Option<String>,
    /// Only files of this type, such as `rust`, `py` or `js`.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// What to return: matching lines, only the paths of files that have some, or how many each
    /// file has.
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
    /// Whether lines have their numbers; for `content`.
    #[serde(rename = "-n", default = "yes")]
    numbers: bool,
    /// Whether upper and lower case are the same.
    #[serde(rename = "-i", default)]
    ignore_case: bool,
    /// Whether a match may span lines, so that `.` fits the end of a line as well.
    #[serde(default)]
    multiline: bool,
    /// Lines of the result at most.
    #[serde(default = "head_limit")]
    #[schemars(range(min = 1, max = 10_000))]
    head_limit: usize,
}

/// What is returned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Content,
    #[default]
    FilesWithMatches,
    Count,
}

fn workspace_itself() -> String {
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
    const DESCRIPTION: &'static str = "Searches the text of the workspace's files for a regular \
        expression, as ripgrep does, and returns the paths of files that have it, or the lines \
        themselves with output_mode `content`, sorted by path. It does not look at binary files, \
        at hidden ones, nor at those that a .gitignore names, and it follows no links. Use it to \
        find where something is said; use Glob to find files by their names.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Fast;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = Input;

    async fn run(&self, context: &ToolContext, input: Input) -> Result<Output, ToolError> {
        let workspace = context.workspace.clone();
        let (watch, _guard) = Watch::of(&context.stop);
        blocking(move || Ok(search::search(&workspace, &input, &watch)?.into())).await
    }
}

#[cfg(test)]
pub(super) use tests::every_line;

#[cfg(test)]
mod tests;
