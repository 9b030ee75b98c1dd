//! What becomes of a change that could not be planned or made in time: a simpler tool is advised,
//! or, where the operator wants it, used at once.
//!
//! Whoever did not answer in time may have changed the file all the same. So the file is looked at
//! before anything else is tried; and only a timeout is a reason to try anything else.

use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};

use super::builtin::changing::{CHANGED, Current, NOT_READ, updated};
use super::builtin::{blocking, edit, multi_edit, write};
use super::text::edits::{Edit, apply_all};
use super::workspace::hash;
use super::{FileChange, Output, Registry, ToolContext, ToolError};
use crate::domain::note::Note;

/// What to do when a tool did not change a file in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fallback {
    /// The tool that does less at a time.
    pub simpler: &'static str,
    /// Whether the service tries it by itself.
    pub is_automatic: bool,
}

/// A change that is being made, as far as it takes to recognise it.
#[derive(Debug)]
pub(super) struct Wanted {
    path: String,
    after: Vec<u8>,
    result: String,
}

/// What a call wants done to a file.
struct Wish {
    file_path: String,
    edits: Vec<Edit>,
}

/// What a fresh look at the file says of a wish.
enum Looked {
    /// It is done.
    Landed(FileChange),
    /// It is not; this would be the text.
    Open(String),
}

impl Registry {
    /// What to recognise a change by, if somebody will look.
    pub(super) fn wanted(&self, name: &str, change: &FileChange) -> Option<Wanted> {
        let FileChange { path, content, result, .. } = change;
        let is_wanted = self.fallback(name)?.is_automatic;
        let wanted = || Wanted { path: path.clone(), after: hash(content), result: result.clone() };
        is_wanted.then(wanted)
    }

    /// Looks at a file whose change was not made in time.
    pub(super) async fn look_again(
        &self,
        context: &ToolContext,
        name: &str,
        wanted: Option<Wanted>,
        timeout: &str,
    ) -> Result<Output, ToolError> {
        if let Some(Wanted { path, after, result }) = wanted {
            let (workspace, plain) = (context.workspace.clone(), path.clone());
            let look = async |_: &ToolContext| blocking(move || workspace.hash(&plain)).await;
            match self.in_time(context, name, look).await {
                Ok(Some(now)) if now == after => {
                    let text = format!("{timeout}, but the change has been made. {result}");
                    return Ok(Output::from(text).with(Note::Seen { path, hash: after }));
                }
                Ok(_) | Err(ToolError::Timeout(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(self.too_late(name, timeout))
    }

    /// Plans a change again that was not planned in time, in a simpler way.
    pub(super) async fn plan_again(
        &self,
        context: &ToolContext,
        name: &str,
        input: &RawValue,
        timeout: &str,
    ) -> Result<FileChange, ToolError> {
        let is_automatic = self.fallback(name).is_some_and(|fallback| fallback.is_automatic);
        let Some(wish) = Wish::of(name, input).filter(|_| is_automatic) else {
            return Err(self.too_late(name, timeout));
        };
        let wish = Arc::new(wish);
        let edit = async |context: &ToolContext| safe_edit(context, &wish).await;
        let content = match self.in_time(context, name, edit).await {
            Err(ToolError::Timeout(_)) => return Err(self.too_late(name, timeout)),
            Ok(Looked::Landed(change)) => {
                return Ok(told(change, &format!("{timeout}, but the change has been made.")));
            }
            Ok(Looked::Open(content)) => content,
            Err(error) => return Err(error),
        };
        for (simpler, input) in wish.simpler(name, content)? {
            if self.fallback_of(simpler).is_none() {
                continue;
            }
            match self.plan_by(context, simpler, &input).await {
                Err(ToolError::Timeout(_)) => {}
                planned => {
                    let how = format!(
                        "{timeout}, and the change had not been made; {simpler} was used instead."
                    );
                    return planned.map(|change| told(change, &how));
                }
            }
        }
        Err(self.too_late(name, timeout))
    }

    fn fallback(&self, name: &str) -> Option<Fallback> {
        self.tool(name)?.fallback()
    }

    /// The name of a tool that may be used in the place of another.
    fn fallback_of(&self, simpler: &'static str) -> Option<&'static str> {
        self.tool(simpler).map(|_| simpler)
    }

    fn too_late(&self, name: &str, timeout: &str) -> ToolError {
        let fallback = self.fallback(name);
        let simpler = fallback.and_then(|fallback| self.fallback_of(fallback.simpler));
        let then = simpler
            .map(|simpler| format!(", then use {simpler} if it was not"))
            .unwrap_or_default();
        ToolError::Timeout(format!(
            "{timeout}; the change may have been made all the same: read the file again{then}"
        ))
    }
}

impl Wish {
    fn of(name: &str, input: &RawValue) -> Option<Self> {
        if name == multi_edit::NAME {
            let input: multi_edit::Input = serde_json::from_str(input.get()).ok()?;
            return Some(Self { file_path: input.file_path, edits: input.edits });
        }
        if name == edit::NAME {
            let input: edit::Input = serde_json::from_str(input.get()).ok()?;
            let (file_path, edit) = input.parts();
            return Some(Self { file_path, edits: vec![edit] });
        }
        None
    }

    /// The same by other tools, the one that changes least first.
    fn simpler(
        &self,
        name: &str,
        content: String,
    ) -> Result<Vec<(&'static str, Box<RawValue>)>, ToolError> {
        let raw = |error: serde_json::Error| ToolError::Failed(error.to_string());
        let Self { file_path, edits } = self;
        let mut calls = Vec::new();
        if name == multi_edit::NAME
            && let [only] = edits.as_slice()
        {
            let input = edit::Input::new(file_path.clone(), only.clone());
            calls.push((edit::NAME, to_raw_value(&input).map_err(raw)?));
        }
        let whole = write::Input { file_path: file_path.clone(), content };
        calls.push((write::NAME, to_raw_value(&whole).map_err(raw)?));
        Ok(calls)
    }
}

fn told(change: FileChange, how: &str) -> FileChange {
    FileChange { result: format!("{how} {}", change.result), ..change }
}

/// Reads the file, and then edits what it says now. A file that is not there is not read.
async fn safe_edit(context: &ToolContext, wish: &Arc<Wish>) -> Result<Looked, ToolError> {
    let current = Current::find(context, &wish.file_path).await?;
    let seen = context.seen.hash(&current.path).await?;
    let wish = Arc::clone(wish);
    blocking(move || {
        if current.before.is_some() && current.before != seen {
            return match landed(&current, &wish, seen.as_ref()) {
                Some(change) => Ok(Looked::Landed(change)),
                None if seen.is_none() => Err(ToolError::ReadRequired(NOT_READ.to_owned())),
                None => Err(ToolError::ReadRequired(CHANGED.to_owned())),
            };
        }
        current.check_exact(&wish.file_path)?;
        apply_all(&current.file.text, &wish.edits).map(Looked::Open)
    })
    .await
}

/// The change that has been made already, if the file is what the edits make of the one that the
/// model has seen: taken back they lead to that one, to the byte.
fn landed(current: &Current, wish: &Wish, seen: Option<&Vec<u8>>) -> Option<FileChange> {
    let Current { path, before, file } = current;
    if !file.is_exact() {
        return None;
    }
    let earlier = if let Some(seen) = seen {
        let undone: Vec<Edit> = wish.edits.iter().rev().map(Edit::undone).collect();
        let earlier = apply_all(&file.text, &undone).ok()?;
        (hash(&file.bytes_of(&earlier)) == *seen).then_some(earlier)?
    } else {
        let made = apply_all("", &wish.edits).ok()?;
        (made == file.text).then(String::new)?
    };
    Some(FileChange {
        path: path.clone(),
        before: before.clone(),
        content: file.bytes_of(&file.text),
        result: updated(&wish.file_path, &earlier, &file.text),
    })
}

#[cfg(test)]
mod tests;
