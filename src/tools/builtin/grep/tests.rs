//! What is found, and in what form.

use super::lines::Hit;
use super::*;
use crate::tools::workspace::Workspace;

/// All lines of a search, however many.
pub(in crate::tools::builtin) fn every_line(
    workspace: &Workspace,
    input: &Input,
    watch: &Watch,
) -> Result<Vec<String>, ToolError> {
    let mut all = Vec::new();
    let is_apart = input.before + input.after + input.around > 0;
    search::find(workspace, input, watch, |hit| {
        if let Hit::Lines(text) = hit {
            if is_apart && !all.is_empty() {
                all.push("--".to_owned());
            }
            all.extend(text.split_terminator('\n').map(str::to_owned));
        }
        true
    })?;
    Ok(all)
}
