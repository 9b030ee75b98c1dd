//! Results as the model gets them.

use std::fmt::Write as _;

use super::ToolContext;
use super::builtin::blocking;

/// The text of a result that the model gets at most, in bytes.
pub(super) const MAX_RESULT: usize = 100 * 1024;

/// A text that the database and the model take.
pub fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// A text that every later request can carry: no NUL, which neither the database nor the model
/// takes, and not without end. What is cut off can be read from a file.
pub(super) async fn presentable(context: &ToolContext, text: String) -> String {
    let text = without_nul(text);
    if text.len() <= MAX_RESULT {
        return text;
    }
    let (workspace, draft) = (context.workspace.clone(), context.draft());
    let kept = blocking(move || {
        let kept = workspace.keep(&text, &draft);
        Ok((text, kept))
    });
    match kept.await {
        Ok((text, kept)) => cut(text, kept.ok().as_deref()),
        Err(error) => error.to_string(),
    }
}

fn cut(mut text: String, kept: Option<&str>) -> String {
    let total = text.len();
    text.truncate(text.floor_char_boundary(MAX_RESULT));
    let _ = write!(text, "\n[cut here: the whole result has {total} bytes");
    if let Some(path) = kept {
        let _ = write!(text, " and is in the file {path}");
    }
    text.push(']');
    text
}
