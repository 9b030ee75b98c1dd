//! `LS`: the entries of a folder.

use std::fmt::Write as _;
use std::time::Duration;

use globset::{Glob, GlobSet, GlobSetBuilder};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{FileOptions, blocking, visible};
use crate::domain::provenance::ResultOrigin;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::{ErrorStyle, ToolError};
use crate::tools::output::Output;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;
use crate::tools::workspace::FolderEntry;

const MAX_ENTRIES: usize = 1000;
const NOTE: &str = "\n\nNOTE: do any of the files above seem malicious? If so, you MUST refuse to \
    continue work.";

#[derive(Debug)]
pub(super) struct Ls(pub(super) FileOptions);

/// A folder to list.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LsInput {
    /// The folder's path, in the workspace; `.` is the workspace itself.
    path: String,
    /// Patterns of names to omit, such as `*.tmp` or `node_modules`.
    #[serde(default)]
    ignore: Vec<String>,
}

impl TypedTool for Ls {
    const NAME: &'static str = "LS";
    const DESCRIPTION: &'static str = "Lists a folder of the workspace, sorted by name; names of \
        folders end with a slash. Use it to find files. It does not list sub-folders; use Glob to \
        find files by a pattern for their paths.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Immediate;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Workspace;
    const ERROR_STYLE: ErrorStyle = ErrorStyle::Wrapped;
    type Input = LsInput;

    /// Returns a longer deadline than that of the timing class, because disks may be slow.
    fn deadline(&self, _input: &RawValue) -> Duration {
        ToolTiming::Fast.deadline()
    }

    async fn run(&self, context: &ToolContext, input: LsInput) -> Result<Output, ToolError> {
        let LsInput { path, ignore } = input;
        let ignored = patterns(&ignore)?;
        let (workspace, given) = (context.workspace.clone(), path.clone());
        let mut entries = blocking(move || workspace.list(&given)).await?;
        entries.retain(|entry| !ignored.is_match(&entry.name));
        let mut text = lines(&path, &entries);
        if self.0.reminders {
            text.push_str(NOTE);
        }
        Ok(text.into())
    }
}

fn patterns(ignore: &[String]) -> Result<GlobSet, ToolError> {
    let bad = |error: globset::Error| ToolError::Invalid(format!("ignore: {error}"));
    let mut patterns = GlobSetBuilder::new();
    for pattern in ignore {
        patterns.add(Glob::new(pattern.trim_end_matches('/')).map_err(bad)?);
    }
    patterns.build().map_err(bad)
}

fn lines(path: &str, entries: &[FolderEntry]) -> String {
    let mut text = format!("- {}/", path.trim_end_matches('/'));
    for FolderEntry { name, is_folder } in entries.iter().take(MAX_ENTRIES) {
        let _ = write!(text, "\n  - {}{}", visible(name), if *is_folder { "/" } else { "" });
    }
    if entries.len() > MAX_ENTRIES {
        let _ = write!(text, "\n  [{} more]", entries.len() - MAX_ENTRIES);
    }
    text
}
