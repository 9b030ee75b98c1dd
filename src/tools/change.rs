//! Changes of one file: planned by a tool, made here, and told by the file whether they happened.

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
