//! Preparation of tool results for the model.

use std::fmt::Write as _;

use super::builtin::blocking;
use super::tool::ToolContext;
use crate::domain::storable::without_nul;

/// The maximum length of a result, in bytes.
pub(super) const MAX_RESULT: usize = 100 * 1024;

/// Returns a text that later requests can contain: without NUL characters and truncated to
/// `MAX_RESULT`. The complete text is written to a file in the workspace.
pub(super) async fn presentable(context: &ToolContext, text: String) -> String {
    let text = without_nul(text);
    if text.len() <= MAX_RESULT {
        return text;
    }
    let (workspace, draft) = (context.workspace.clone(), context.draft());
    let stored = blocking(move || {
        let stored = workspace.store_result(&text, &draft);
        Ok((text, stored))
    });
    match stored.await {
        Ok((text, stored)) => truncate(text, stored.ok().as_deref()),
        Err(error) => error.to_string(),
    }
}

fn truncate(mut text: String, stored: Option<&str>) -> String {
    let total = text.len();
    text.truncate(text.floor_char_boundary(MAX_RESULT));
    let _ = write!(text, "\n[truncated: the whole result has {total} bytes");
    if let Some(path) = stored {
        let _ = write!(text, " and is in the file {path}");
    }
    text.push(']');
    text
}
