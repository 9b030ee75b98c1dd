//! Rules shared by the tools that change files: a file has to be read before it is changed, and the
//! result shows the changed lines.

use super::blocking;
use crate::tools::error::ToolError;
use crate::tools::output::FileChange;
use crate::tools::text::TextFile;
use crate::tools::text::snippets::snippets;
use crate::tools::tool::ToolContext;
use crate::tools::workspace::hash;

/// The error for a file that the model has not read.
pub(in crate::tools) const NOT_READ: &str =
    "File has not been read yet. Read it first before writing to it.";
/// The error for a file that has changed since the model read it.
pub(in crate::tools) const CHANGED: &str =
    "File has been changed since it was read. Read it again before writing to it.";

/// The current state of a file to change.
#[derive(Debug)]
pub(in crate::tools) struct CurrentFile {
    /// The normalized path, relative to the workspace.
    pub(in crate::tools) path: String,
    /// The SHA-256 of the file. `None` if the file does not exist.
    pub(in crate::tools) before: Option<Vec<u8>>,
    /// The decoded content.
    pub(in crate::tools) file: TextFile,
}

impl CurrentFile {
    /// Reads a file. The file may not exist yet.
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

    /// Reads a file. Fails if the model has not read its current content.
    pub(in crate::tools) async fn find_read(
        context: &ToolContext,
        path: &str,
    ) -> Result<Self, ToolError> {
        let current = Self::find(context, path).await?;
        check_read_state(context, &current.path, current.before.as_ref()).await?;
        Ok(current)
    }

    /// Fails for a file that cannot be encoded again without loss.
    pub(in crate::tools) fn check_exact(&self, path: &str) -> Result<(), ToolError> {
        if self.file.is_exact() {
            return Ok(());
        }
        Err(ToolError::Failed(format!(
            "{path} is neither UTF-8 nor UTF-16, and an edit would damage it; to replace it, write \
             the whole file"
        )))
    }

    /// Plans the change to another text. The result names the path that the model gave.
    pub(in crate::tools) fn change(self, path: &str, text: &str) -> FileChange {
        FileChange {
            result: updated(path, &self.file.text, text),
            content: self.file.bytes_of(text),
            path: self.path,
            before: self.before,
        }
    }
}

/// Fails if the model has not read the current content of the file. A file that does not exist
/// passes.
pub(in crate::tools) async fn check_read_state(
    context: &ToolContext,
    path: &str,
    now: Option<&Vec<u8>>,
) -> Result<(), ToolError> {
    let Some(now) = now else { return Ok(()) };
    match context.read_state.hash(path).await? {
        Some(seen) if seen == *now => Ok(()),
        Some(_) => Err(ToolError::ReadRequired(CHANGED.to_owned())),
        None => Err(ToolError::ReadRequired(NOT_READ.to_owned())),
    }
}

/// Formats the result of a file change.
pub(in crate::tools) fn updated(path: &str, before: &str, after: &str) -> String {
    let snippets = snippets(before, after);
    format!(
        "The file {path} has been updated. Here's the result of running `cat -n` on a snippet of \
         the edited file:\n{snippets}"
    )
}
