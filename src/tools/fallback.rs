//! Fallback for a change that is not planned before its deadline. By default the error recommends a
//! simpler tool. If the operator enables it, the service uses the simpler tool itself.
//!
//! A call that timed out may still have changed the file. Therefore the service reads the file
//! before it tries another tool, and tries another tool only after a timeout.

use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};

use super::builtin::current_file::{CHANGED, CurrentFile, NOT_READ, updated};
use super::builtin::{blocking, edit, multi_edit, write};
use super::error::ToolError;
use super::output::FileChange;
use super::registry::Registry;
use super::text::edits::{Edit, apply_all};
use super::tool::{Fallback, ToolContext};
use super::workspace::hash;

/// The edits that a call requests for a file.
struct EditRequest {
    file_path: String,
    edits: Vec<Edit>,
}

/// The state of a requested edit in the current file.
enum EditState {
    /// The file already contains the edit.
    Applied(FileChange),
    /// The file does not contain the edit. The value is the text after the edit.
    Pending(String),
}

impl Registry {
    /// Plans a change with a simpler tool after planning timed out.
    pub(super) async fn plan_with_fallback(
        &self,
        context: &ToolContext,
        name: &str,
        input: &RawValue,
        timeout: &str,
    ) -> Result<FileChange, ToolError> {
        let is_automatic = self.fallback(name).is_some_and(|fallback| fallback.is_automatic);
        let Some(request) = EditRequest::of(name, input).filter(|_| is_automatic) else {
            return Err(self.timeout_error(name, timeout));
        };
        let request = Arc::new(request);
        let edit = async |context: &ToolContext| safe_edit(context, &request).await;
        let content = match self.in_time(context, name, edit).await {
            Err(ToolError::Timeout(_)) => return Err(self.timeout_error(name, timeout)),
            Ok(EditState::Applied(change)) => {
                return Ok(prefix_result(
                    change,
                    &format!("{timeout}, but the change has been made."),
                ));
            }
            Ok(EditState::Pending(content)) => content,
            Err(error) => return Err(error),
        };
        for (simpler, input) in request.simpler(name, content)? {
            if self.fallback_of(simpler).is_none() {
                continue;
            }
            match self.plan_by(context, simpler, &input).await {
                Err(ToolError::Timeout(_)) => {}
                planned => {
                    let how = format!(
                        "{timeout}, and the change had not been made; {simpler} was used instead."
                    );
                    return planned.map(|change| prefix_result(change, &how));
                }
            }
        }
        Err(self.timeout_error(name, timeout))
    }

    fn fallback(&self, name: &str) -> Option<Fallback> {
        self.tool(name)?.fallback()
    }

    /// Returns the name of the simpler tool if it is registered.
    fn fallback_of(&self, simpler: &'static str) -> Option<&'static str> {
        self.tool(simpler).map(|_| simpler)
    }

    fn timeout_error(&self, name: &str, timeout: &str) -> ToolError {
        let fallback = self.fallback(name);
        let simpler = fallback.and_then(|fallback| self.fallback_of(fallback.simpler));
        let then = simpler
            .map(|simpler| format!(", then use {simpler} if it was not"))
            .unwrap_or_default();
        ToolError::Timeout(format!(
            "{timeout}; the change may have been made nevertheless: read the file again{then}"
        ))
    }
}

impl EditRequest {
    fn of(name: &str, input: &RawValue) -> Option<Self> {
        if name == multi_edit::NAME {
            let input: multi_edit::MultiEditInput = serde_json::from_str(input.get()).ok()?;
            return Some(Self { file_path: input.file_path, edits: input.edits });
        }
        if name == edit::NAME {
            let input: edit::EditInput = serde_json::from_str(input.get()).ok()?;
            let (file_path, edit) = input.parts();
            return Some(Self { file_path, edits: vec![edit] });
        }
        None
    }

    /// Returns equivalent calls of simpler tools, the smallest change first.
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
            let input = edit::EditInput::new(file_path.clone(), only.clone());
            calls.push((edit::NAME, to_raw_value(&input).map_err(raw)?));
        }
        let whole = write::WriteInput { file_path: file_path.clone(), content };
        calls.push((write::NAME, to_raw_value(&whole).map_err(raw)?));
        Ok(calls)
    }
}

fn prefix_result(change: FileChange, how: &str) -> FileChange {
    FileChange { result: format!("{how} {}", change.result), ..change }
}

/// Reads the file and applies the edits to its current text. A new file requires no earlier read.
async fn safe_edit(
    context: &ToolContext,
    request: &Arc<EditRequest>,
) -> Result<EditState, ToolError> {
    let current = CurrentFile::find(context, &request.file_path).await?;
    let seen = context.read_state.hash(&current.path).await?;
    let request = Arc::clone(request);
    blocking(move || {
        if current.before.is_some() && current.before != seen {
            return match applied_change(&current, &request, seen.as_ref()) {
                Some(change) => Ok(EditState::Applied(change)),
                None if seen.is_none() => Err(ToolError::ReadRequired(NOT_READ.to_owned())),
                None => Err(ToolError::ReadRequired(CHANGED.to_owned())),
            };
        }
        current.check_exact(&request.file_path)?;
        apply_all(&current.file.text, &request.edits).map(EditState::Pending)
    })
    .await
}

/// Returns the change if the file already contains it. The check reverts the edits and compares the
/// hash of the result with the hash of the file that the model has read.
fn applied_change(
    current: &CurrentFile,
    request: &EditRequest,
    seen: Option<&Vec<u8>>,
) -> Option<FileChange> {
    let CurrentFile { path, before, file } = current;
    if !file.is_exact() {
        return None;
    }
    let earlier = if let Some(seen) = seen {
        let inverse: Vec<Edit> = request.edits.iter().rev().map(Edit::inverse).collect();
        let earlier = apply_all(&file.text, &inverse).ok()?;
        (hash(&file.bytes_of(&earlier)) == *seen).then_some(earlier)?
    } else {
        let made = apply_all("", &request.edits).ok()?;
        (made == file.text).then(String::new)?
    };
    Some(FileChange {
        path: path.clone(),
        before: before.clone(),
        content: file.bytes_of(&file.text),
        result: updated(&request.file_path, &earlier, &file.text),
    })
}

#[cfg(test)]
mod tests;
