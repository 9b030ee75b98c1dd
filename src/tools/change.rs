//! Changes of one file: planned by a tool, made here, and told by the file whether they happened.

use std::time::Duration;

use similar::TextDiff;

use super::workspace::hash;
use super::{FileChange, Output, ToolContext, ToolError};
use crate::domain::note::Note;
use crate::tools::builtin::blocking;

/// Makes a planned change, if the file is still as it was when the change was planned.
pub(super) async fn apply(context: &ToolContext, change: FileChange) -> Result<Output, ToolError> {
    let context = context.clone();
    blocking(move || {
        let FileChange { path, before, content, result } = change;
        let workspace = &context.workspace;
        if workspace.hash(&path)? != before {
            let text = format!("{path} was changed by somebody else just now; read it again");
            return Err(ToolError::Failed(text));
        }
        workspace.write(&path, &content, &context.draft(), || context.may_change())?;
        Ok(Output::from(result).with(Note::Seen { path, hash: hash(&content) }))
    })
    .await
}

/// What a file is now, for a call that may have begun to change it; none if that cannot be told.
/// To look also clears away what dead attempts left unfinished.
pub async fn file_hash(context: &ToolContext, path: &str) -> Option<Option<Vec<u8>>> {
    let (context, path) = (context.clone(), path.to_owned());
    let look = move || {
        context.workspace.discard_drafts(&path, &context.draft())?;
        context.workspace.hash(&path)
    };
    blocking(look).await.ok()
}

/// How long the shortest diff is looked for.
const DIFF_WITHIN: Duration = Duration::from_millis(500);
/// The longest diff that is shown.
const MAX_DIFF: usize = 64 * 1024;

/// What a planned change would change, as a unified diff.
pub(super) async fn diff(context: &ToolContext, change: FileChange) -> Option<String> {
    let workspace = context.workspace.clone();
    let compare = move || {
        let FileChange { path, before, content, .. } = change;
        let old = if before.is_some() { workspace.read(&path)? } else { Vec::new() };
        let (old, new) = (String::from_utf8_lossy(&old), String::from_utf8_lossy(&content));
        let old_name = if before.is_some() { path.as_str() } else { "/dev/null" };
        let diff = TextDiff::configure().timeout(DIFF_WITHIN).diff_lines(&*old, &*new);
        let mut text = diff.unified_diff().context_radius(3).header(old_name, &path).to_string();
        if text.len() > MAX_DIFF {
            text.truncate(text.floor_char_boundary(MAX_DIFF));
            text.push_str("\n[cut here: the diff is longer]");
        }
        Ok(text)
    };
    blocking(compare).await.ok()
}
