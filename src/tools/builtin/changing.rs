//! What the tools share that change files: the rule that a file is read before it is changed, and
//! the text that shows what has changed.

use super::blocking;
use crate::tools::text::TextFile;
use crate::tools::text::numbered::snippet;
use crate::tools::workspace::hash;
use crate::tools::{FileChange, ToolContext, ToolError};

/// What the model is told of a file that it has not read.
pub(in crate::tools) const NOT_READ: &str =
    "File has not been read yet. Read it first before writing to it.";
/// What the model is told of a file that somebody changed after it was read.
pub(in crate::tools) const CHANGED: &str =
    "File has been changed since it was read. Read it again before writing to it.";

/// A file that is to be changed, as it is now.
#[derive(Debug)]
pub(in crate::tools) struct Current {
    /// Relative to the workspace, in its plainest form.
    pub(in crate::tools) path: String,
    /// Its hash; none if there is no such file.
    pub(in crate::tools) before: Option<Vec<u8>>,
    /// What it says.
    pub(in crate::tools) file: TextFile,
}

impl Current {
    /// The file of this path, which may be one that is not there yet.
    pub(in crate::tools) async fn find(
        context: &ToolContext,
        path: &str,
    ) -> Result<Self, ToolError> {
        let (workspace, given) = (context.workspace.clone(), path.to_owned());
        blocking(move || {
            workspace.check_writable(&given)?;
            let path = workspace.plain(&given)?;
            let Some(bytes) = workspace.find(&path)? else {
                return Ok(Self { path, before: None, file: TextFile::new() });
            };
            let file = TextFile::read(&given, &bytes)?;
            Ok(Self { path, before: Some(hash(&bytes)), file })
        })
        .await
    }

    /// The same, if the model has seen it as it is.
    pub(in crate::tools) async fn find_seen(
        context: &ToolContext,
        path: &str,
    ) -> Result<Self, ToolError> {
        let current = Self::find(context, path).await?;
        check_seen(context, &current.path, current.before.as_ref()).await?;
        Ok(current)
    }

    /// Refuses a file of which a part would be lost.
    pub(in crate::tools) fn check_exact(&self, path: &str) -> Result<(), ToolError> {
        if self.file.is_exact() {
            return Ok(());
        }
        Err(ToolError::Failed(format!(
            "{path} is neither UTF-8 nor UTF-16, and cannot be edited without damage; write it as \
             a whole if that is what you want"
        )))
    }

    /// The change to another text. The model gets to see it under the path that it gave.
    pub(in crate::tools) fn change(self, path: &str, text: &str) -> FileChange {
        FileChange {
            result: updated(path, &self.file.text, text),
            content: self.file.bytes_of(text),
            path: self.path,
            before: self.before,
        }
    }
}

/// Refuses a file that the model has not seen as it is. A new file need not have been seen.
pub(in crate::tools) async fn check_seen(
    context: &ToolContext,
    path: &str,
    now: Option<&Vec<u8>>,
) -> Result<(), ToolError> {
    let Some(now) = now else { return Ok(()) };
    match context.seen.hash(path).await? {
        Some(seen) if seen == *now => Ok(()),
        Some(_) => Err(ToolError::ReadRequired(CHANGED.to_owned())),
        None => Err(ToolError::ReadRequired(NOT_READ.to_owned())),
    }
}

/// What the model reads when a file has been changed.
pub(in crate::tools) fn updated(path: &str, before: &str, after: &str) -> String {
    let snippet = snippet(before, after);
    format!(
        "The file {path} has been updated. Here's the result of running `cat -n` on a snippet of \
         the edited file:\n{snippet}"
    )
}
