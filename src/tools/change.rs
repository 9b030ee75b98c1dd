//! Changes of one file. A tool plans the change; this module makes it, and compares hashes to
//! determine whether it happened.

use std::time::Duration;

use similar::TextDiff;

use super::error::ToolError;
use super::output::{FileChange, Output};
use super::text::TextFile;
use super::tool::ToolContext;
use super::workspace::hash;
use crate::domain::state_change::StateChange;
use crate::tools::builtin::blocking;

/// Makes a planned change. Fails if the file has changed since the change was planned.
pub(super) async fn apply(context: &ToolContext, change: FileChange) -> Result<Output, ToolError> {
    let context = context.clone();
    blocking(move || {
        let FileChange { path, before, content, result } = change;
        let workspace = &context.workspace;
        let is_as_planned = || workspace.hash(&path).is_ok_and(|now| now == before);
        let (mut lock, mut is_late) = (None, !is_as_planned());
        if !is_late {
            // The lock prevents other writers from replacing the file between the last comparison
            // and the write. A file that does not exist cannot be locked; the write then fails if
            // another process has created it.
            let may_finish = || {
                lock = workspace.lock(&path).ok();
                is_late = !is_as_planned();
                !is_late && context.may_change()
            };
            let written = workspace.write(&path, &content, &context.draft(), may_finish);
            drop(lock);
            if !is_late {
                written?;
            }
        }
        if is_late {
            let text = format!("{path} has just been changed by another process; read it again");
            return Err(ToolError::Failed(text));
        }
        Ok(Output::from(result)
            .with_state_change(StateChange::FileRead { path, hash: hash(&content) }))
    })
    .await
}

/// Returns the current hash of a file that a call may have started to change. Returns `None` if the
/// hash cannot be determined. Also removes the temporary files of earlier attempts.
pub async fn file_hash(context: &ToolContext, path: &str) -> Option<Option<Vec<u8>>> {
    let (context, path) = (context.clone(), path.to_owned());
    let look = move || {
        context.workspace.discard_drafts(&path, &context.draft())?;
        context.workspace.hash(&path)
    };
    blocking(look).await.ok()
}

/// The time limit for finding the shortest diff.
const DIFF_TIMEOUT: Duration = Duration::from_millis(500);
/// The largest file, in bytes, that is compared. The limit applies before and after the change,
/// because the comparison allocates a record for each line.
const MAX_COMPARED: usize = 1024 * 1024;
/// The maximum length of a diff, in bytes.
const MAX_DIFF: usize = 64 * 1024;

/// Returns a planned change as a unified diff. Returns `None` if the file is too large.
pub(super) async fn diff(context: &ToolContext, change: FileChange) -> Option<String> {
    let workspace = context.workspace.clone();
    let compare = move || {
        let FileChange { path, before, content, .. } = change;
        let old = if before.is_some() { workspace.read(&path)? } else { Vec::new() };
        let shown = |bytes: &[u8]| match TextFile::read(&path, bytes) {
            Ok(file) => file.text,
            Err(_no_text) => String::from_utf8_lossy(bytes).into_owned(),
        };
        if old.len().max(content.len()) > MAX_COMPARED {
            return Err(ToolError::Failed(format!("{path} is too large to compare")));
        }
        let (old, new) = (shown(&old), shown(&content));
        let old_name = if before.is_some() { path.as_str() } else { "/dev/null" };
        let diff =
            TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(old.as_str(), new.as_str());
        let mut text = diff.unified_diff().context_radius(3).header(old_name, &path).to_string();
        if text.len() > MAX_DIFF {
            text.truncate(text.floor_char_boundary(MAX_DIFF));
            text.push_str("\n[truncated: the diff is longer]");
        }
        Ok(text)
    };
    blocking(compare).await.ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::tools::workspace::Workspace;

    #[tokio::test]
    async fn a_file_that_changed_after_the_plan_is_not_overwritten() {
        let folder = TempDir::new().unwrap();
        let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
        let file = folder.path().join("a.txt");
        let planned = |before: &[u8]| FileChange {
            path: "a.txt".to_owned(),
            before: Some(hash(before)),
            content: b"new".to_vec(),
            result: "Changed.".to_owned(),
        };
        fs::write(&file, "theirs").unwrap();
        let refused = apply(&context, planned(b"old")).await.unwrap_err().to_string();
        assert!(refused.contains("a.txt has just been changed by another process"), "{refused}");
        assert_eq!(fs::read(&file).unwrap(), b"theirs");
        assert_eq!(apply(&context, planned(b"theirs")).await.unwrap().text, "Changed.");
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[tokio::test]
    async fn the_diff_of_a_utf_16_file_compares_decoded_text() {
        let folder = TempDir::new().unwrap();
        let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
        let utf16 = |text: &str| -> Vec<u8> {
            [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
        };
        fs::write(folder.path().join("a.txt"), utf16("old\n")).unwrap();
        let change = FileChange {
            path: "a.txt".to_owned(),
            before: Some(hash(&utf16("old\n"))),
            content: utf16("new\n"),
            result: String::new(),
        };
        let expected = "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-old\n+new\n";
        assert_eq!(diff(&context, change).await.as_deref(), Some(expected));
    }

    #[tokio::test]
    async fn a_file_that_exceeds_the_limit_is_not_compared() {
        let folder = TempDir::new().unwrap();
        let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
        let diff_of = async |length: usize| {
            let content = vec![b'x'; length];
            let change =
                FileChange { path: "a".into(), before: None, content, result: String::new() };
            diff(&context, change).await
        };
        assert!(diff_of(1024 * 1024).await.is_some());
        assert_eq!(diff_of(1024 * 1024 + 1).await, None);
    }
}
