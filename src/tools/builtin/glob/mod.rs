//! `Glob`: finds files by name.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::path::PathBuf;

use rustix::fs::{AtFlags, statat};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{blocking, visible};
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::output::Output;
use crate::tools::search::{Filter, SearchOrigin, WalkedFile, Watch, walk};
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;
use crate::tools::workspace::Workspace;

/// The maximum number of paths in a result.
const MAX_PATHS: usize = 100;

#[derive(Debug)]
pub(super) struct Glob;

/// A pattern for file names.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GlobInput {
    /// The pattern, such as `**/*.rs` or `src/*.{js,ts}`, relative to `path` or absolute in the
    /// workspace. Without a slash it matches file names in all folders.
    pattern: String,
    /// The folder to search, relative to the workspace.
    #[serde(default = "workspace_root")]
    path: String,
}

fn workspace_root() -> String {
    ".".to_owned()
}

impl TypedTool for Glob {
    const NAME: &'static str = "Glob";
    const DESCRIPTION: &'static str = "Finds files of the workspace by a pattern for their names, \
        and returns their paths, one per line, relative to the workspace, the newest first. It \
        searches all sub-folders except those that are hidden or excluded by a .gitignore, unless \
        the pattern matches or names them, as .github/** does, and follows no symbolic links. Use it to find files before you \
        read them; use Grep to search their content.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Fast;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Workspace;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = GlobInput;

    async fn run(&self, context: &ToolContext, input: GlobInput) -> Result<Output, ToolError> {
        let workspace = context.workspace.clone();
        let (watch, _guard) = Watch::of(&context.stop);
        blocking(move || Ok(text(find(&workspace, &input, &watch)?).into())).await
    }
}

/// A matching file. The order is that of results: the newest first, then by path.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fit {
    age: Reverse<(i64, i64)>,
    pub(super) path: PathBuf,
}

/// Finds all matching files.
pub(super) fn find(
    workspace: &Workspace,
    input: &GlobInput,
    watch: &Watch,
) -> Result<Vec<Fit>, ToolError> {
    let origin = SearchOrigin::new(workspace, &input.path)?;
    if !origin.is_folder {
        return Err(ToolError::Failed(format!("{}: it is not a folder", input.path)));
    }
    if input.pattern.is_empty() {
        return Err(ToolError::Invalid("the pattern is empty".to_owned()));
    }
    let filter = Filter::new(workspace, origin.folder(), Some(&input.pattern), None)?;
    let mut fits = walk(&origin, &filter, watch, |WalkedFile { folder, name, path }| {
        // Files that were deleted in the meantime are omitted.
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let modified = (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or_default());
        Some(Fit { age: Reverse(modified), path })
    })?;
    fits.sort_unstable();
    Ok(fits)
}

fn text(fits: Vec<Fit>) -> String {
    if fits.is_empty() {
        return "No files match the pattern.".to_owned();
    }
    let more = fits.len().saturating_sub(MAX_PATHS);
    let mut text = String::new();
    for fit in fits.into_iter().take(MAX_PATHS) {
        let _ = writeln!(text, "{}", visible(&fit.path.to_string_lossy()));
    }
    if more > 0 {
        let _ = writeln!(text, "[{more} more; use a narrower pattern or a sub-folder]");
    }
    text
}

#[cfg(test)]
mod tests;
