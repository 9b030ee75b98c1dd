//! Changes of one file. A tool plans the change; this module makes it, and compares hashes to
//! determine whether it happened.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use similar::TextDiff;
use tokio::time::timeout;

use super::error::ToolError;
use super::output::{FileChange, Output};
use super::text::TextFile;
use super::tool::ToolContext;
use super::workspace::hash;
use crate::domain::state_change::StateChange;
use crate::tools::builtin::{blocking, visible};

/// The time limit for reading the hash of a file: a file system that hangs must not block a run.
const HASH_TIMEOUT: Duration = Duration::from_secs(10);

/// The progress of a change. It outlives the call: a file system can take long to replace a file,
/// and the replacement cannot be aborted once it has begun.
#[derive(Debug, Clone, Default)]
pub(super) struct ChangeProgress(Arc<Mutex<Stage>>);

/// The stage of a change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// The file is not replaced yet.
    #[default]
    Preparing,
    /// The file will not be replaced.
    Abandoned,
    /// The replacement has begun and has not ended.
    Replacing,
    /// The change is made.
    Made(Output),
}

impl ChangeProgress {
    /// Begins to replace the file. Returns false if the change was abandoned.
    fn begin(&self) -> bool {
        let mut stage = self.stage();
        let may_begin = *stage == Stage::Preparing;
        if may_begin {
            *stage = Stage::Replacing;
        }
        may_begin
    }

    fn end(&self, made: Option<&Output>) {
        *self.stage() = made.cloned().map_or(Stage::Abandoned, Stage::Made);
    }

    /// Abandons the change if the replacement has not begun. Returns the stage, which afterwards
    /// is no longer `Preparing`.
    pub(super) fn abandon(&self) -> Stage {
        let mut stage = self.stage();
        if *stage == Stage::Preparing {
            *stage = Stage::Abandoned;
        }
        stage.clone()
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a planned change. Fails if the file has changed since the change was planned.
pub(super) async fn apply(
    context: &ToolContext,
    change: FileChange,
    progress: &ChangeProgress,
) -> Result<Output, ToolError> {
    let (context, progress) = (context.clone(), progress.clone());
    blocking(move || {
        let made = replace(&context, change, || progress.begin());
        progress.end(made.as_ref().ok());
        made
    })
    .await
}

/// Replaces the file. `begin` is called at the last moment at which the change can be abandoned.
fn replace(
    context: &ToolContext,
    change: FileChange,
    begin: impl FnOnce() -> bool,
) -> Result<Output, ToolError> {
    let FileChange { path, before, content, result } = change;
    let workspace = &context.workspace;
    let is_as_planned = || workspace.hash(&path).is_ok_and(|now| now == before);
    let mut is_late = !is_as_planned();
    if !is_late {
        // The file's folder is locked: no other writer replaces the file between this comparison
        // and the write.
        let may_finish = || {
            is_late = !is_as_planned();
            !is_late && context.may_change() && begin()
        };
        let written = workspace.write(&path, &content, &context.draft(), may_finish);
        if !is_late {
            written?;
        }
    }
    if is_late {
        let text = format!("{path} has just been changed by another process; read it again");
        return Err(ToolError::Failed(text));
    }
    Ok(Output::from(result).with_state_change(StateChange::FileRead { path, hash: hash(&content) }))
}

/// Returns the result of a change of `path` that was not made before its deadline. `text` states the
/// deadline.
pub(super) fn timed_out(
    progress: &ChangeProgress,
    path: &str,
    text: &str,
) -> Result<Output, ToolError> {
    Err(ToolError::Timeout(match progress.abandon() {
        Stage::Made(output) => {
            let text = format!("{text}, but the change has been made. {}", output.text);
            return Ok(Output { text, ..output });
        }
        Stage::Preparing | Stage::Abandoned => format!("{text}; {path} was not changed"),
        Stage::Replacing => format!(
            "{text}; the file system has begun to replace {path} and has not finished, so the \
             change may be made now or later. Until then, all changes of files in the same folder \
             are refused. Read {path} again before you change it"
        ),
    }))
}

/// Returns the current hash of a file that a call may have started to change. Returns `None` if the
/// hash cannot be determined. Also removes the temporary files of earlier attempts.
pub async fn file_hash(context: &ToolContext, path: &str) -> Option<Option<Vec<u8>>> {
    let (context, path) = (context.clone(), path.to_owned());
    let look = move || {
        context.workspace.discard_drafts(&path, &context.draft())?;
        context.workspace.hash(&path)
    };
    timeout(HASH_TIMEOUT, blocking(look)).await.ok()?.ok()
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
        let path = visible(&path);
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
    use std::sync::mpsc::channel;
    use std::thread;

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
        let make = |change| {
            let context = context.clone();
            async move { apply(&context, change, &ChangeProgress::default()).await }
        };
        let refused = make(planned(b"old")).await.unwrap_err().to_string();
        assert!(refused.contains("a.txt has just been changed by another process"), "{refused}");
        assert_eq!(fs::read(&file).unwrap(), b"theirs");
        assert_eq!(make(planned(b"theirs")).await.unwrap().text, "Changed.");
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    fn change(content: &str) -> FileChange {
        FileChange {
            path: "a.txt".to_owned(),
            before: Some(hash(b"old")),
            content: content.into(),
            result: format!("Changed to {content}."),
        }
    }

    #[tokio::test]
    async fn a_replacement_that_outlives_its_deadline_excludes_later_changes_until_it_ends() {
        let folder = TempDir::new().unwrap();
        let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
        let file = folder.path().join("a.txt");
        fs::write(&file, "old").unwrap();
        let progress = ChangeProgress::default();
        let (begins, begun) = channel();
        let (release, hangs) = channel();
        // The hang begins where that of a system call begins: after the decision to replace.
        let slow = {
            let (context, progress) = (context.clone(), progress.clone());
            thread::spawn(move || {
                let hanging = || {
                    let may_begin = progress.begin();
                    begins.send(()).unwrap();
                    hangs.recv().unwrap();
                    may_begin
                };
                replace(&context, change("slow"), hanging)
            })
        };
        begun.recv().unwrap();
        let text = timed_out(&progress, "a.txt", "Edit timed out after 10 s").unwrap_err();
        let expected = "Edit timed out after 10 s; the file system has begun to replace a.txt and \
            has not finished, so the change may be made now or later. Until then, all changes of \
            files in the same folder are refused. Read a.txt again before you change it";
        assert_eq!(text, ToolError::Timeout(expected.to_owned()));

        let other = context.of_call("toolu_other");
        let later = apply(&other, change("later"), &ChangeProgress::default()).await;
        let refused = "a.txt: another change of a file in its folder has not ended; it was not \
            changed by this call. Try again later, and read it again first";
        assert_eq!(later, Err(ToolError::Failed(refused.to_owned())));
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");

        release.send(()).unwrap();
        slow.join().unwrap().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "slow");
        let late = apply(&other, change("later"), &ChangeProgress::default()).await;
        let text = late.unwrap_err().to_string();
        assert!(text.starts_with("a.txt has just been changed by another process"), "{text}");
    }

    #[tokio::test]
    async fn a_change_that_was_abandoned_is_never_made() {
        let folder = TempDir::new().unwrap();
        let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
        fs::write(folder.path().join("a.txt"), "old").unwrap();
        let progress = ChangeProgress::default();
        let text = timed_out(&progress, "a.txt", "Edit timed out after 10 s").unwrap_err();
        let expected = "Edit timed out after 10 s; a.txt was not changed".to_owned();
        assert_eq!(text, ToolError::Timeout(expected));
        let text = apply(&context, change("new"), &progress).await.unwrap_err().to_string();
        assert_eq!(text, "a.txt: the call was stopped before the file was written");
        assert_eq!(fs::read_to_string(folder.path().join("a.txt")).unwrap(), "old");
    }

    #[tokio::test]
    async fn a_change_that_was_made_at_its_deadline_is_reported_as_made() {
        let folder = TempDir::new().unwrap();
        let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
        fs::write(folder.path().join("a.txt"), "old").unwrap();
        let progress = ChangeProgress::default();
        let made = apply(&context, change("new"), &progress).await.unwrap();
        let late = timed_out(&progress, "a.txt", "Edit timed out after 10 s").unwrap();
        let text = "Edit timed out after 10 s, but the change has been made. Changed to new.";
        assert_eq!(late, Output { text: text.to_owned(), ..made });
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
    async fn control_characters_in_the_name_of_a_file_are_escaped_in_its_diff() {
        let folder = TempDir::new().unwrap();
        let context = ToolContext::without_run(Workspace::new(folder.path().to_owned()));
        let (path, content) = ("a\nb".to_owned(), b"new\n".to_vec());
        let change = FileChange { path, before: None, content, result: String::new() };
        let expected = "--- /dev/null\n+++ a\\nb\n@@ -0,0 +1 @@\n+new\n";
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
