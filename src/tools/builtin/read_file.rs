//! `read_file`: the lines of a text file.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use super::blocking;
use crate::domain::provenance::ResultOrigin;
use crate::domain::state_change::StateChange;
use crate::domain::tool::{ToolClass, ToolTiming};
use crate::tools::error::ToolError;
use crate::tools::output::Output;
use crate::tools::text::TextFile;
use crate::tools::tool::ToolContext;
use crate::tools::typed::TypedTool;
use crate::tools::workspace::hash;

const DEFAULT_LIMIT: usize = 2000;

#[derive(Debug)]
pub(super) struct ReadFile;

/// A range of lines of a file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFileInput {
    /// The file's path, relative to the workspace, such as `src/main.rs`.
    path: String,
    /// The number of lines to skip from the top.
    #[serde(default)]
    offset: usize,
    /// The maximum number of lines to read.
    #[serde(default = "default_limit")]
    limit: usize,
}

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

impl TypedTool for ReadFile {
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str = "Reads a text file of the workspace and returns its text. \
        Use it whenever a question is about the content of a file; never guess the content. Long \
        files are returned in parts: continue with `offset`. It does not list folders; use \
        list_files for that.";
    const CLASS: ToolClass = ToolClass::Pure;
    const TIMING: ToolTiming = ToolTiming::Fast;
    const RESULT_ORIGIN: ResultOrigin = ResultOrigin::Workspace;
    type Input = ReadFileInput;

    async fn run(&self, context: &ToolContext, input: ReadFileInput) -> Result<Output, ToolError> {
        let workspace = context.workspace.clone();
        blocking(move || {
            let bytes = workspace.read(&input.path)?;
            let file = TextFile::read(&input.path, &bytes)?;
            let text = part(&file.text, input.offset, input.limit);
            let path = workspace.plain(&input.path)?;
            Ok(Output::from(text)
                .with_state_change(StateChange::FileRead { path, hash: hash(&bytes) }))
        })
        .await
    }
}

/// Returns the requested lines unchanged, followed by a note if there are more.
fn part(text: &str, offset: usize, limit: usize) -> String {
    let mut part: String = text.split_inclusive('\n').skip(offset).take(limit).collect();
    let lines = text.lines().count();
    let end = offset.saturating_add(limit);
    if end < lines {
        let _ = write!(part, "[the file has {lines} lines; read on with offset {end}]");
    }
    part
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn a_short_file_is_returned_as_it_is() {
        assert_eq!(part("a\r\n\tb", 0, 2000), "a\r\n\tb");
        assert_eq!(part("", 0, 2000), "");
    }

    #[test]
    fn a_partial_result_states_the_next_offset() {
        assert_eq!(
            part("1\n2\n3\n4\n", 1, 2),
            "2\n3\n[the file has 4 lines; read on with offset 3]"
        );
        assert_eq!(part("1\n2\n3\n4\n", 3, 2), "4\n");
    }
}
