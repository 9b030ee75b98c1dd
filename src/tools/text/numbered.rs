//! Numbered lines in the format of `cat -n`.

use std::fmt::Write as _;

/// The maximum number of characters shown of a line.
const MAX_LINE: usize = 2000;
/// The maximum size of a page, in bytes. It is less than the limit of a result, so that pages end
/// between lines.
const MAX_PAGE: usize = 96 * 1024;
/// The number of lines shown before and after a change.
const CONTEXT: usize = 4;
/// The maximum size of a snippet, in bytes and in lines.
const MAX_SNIPPET: usize = 24 * 1024;
const MAX_SNIPPET_LINES: usize = 400;

/// A range of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools) struct Part {
    /// The number of lines to skip.
    pub(in crate::tools) offset: usize,
    /// The maximum number of lines to show.
    pub(in crate::tools) limit: usize,
}

/// Returns the numbered lines of a range, followed by the offset of the next page if there is one.
pub(in crate::tools) fn page(text: &str, part: Part) -> String {
    let total = text.lines().count();
    if part.offset > 0 && part.offset >= total {
        return format!("[the file has {total} lines, and offset {} skips them all]", part.offset);
    }
    let lines = text.lines().skip(part.offset).take(part.limit);
    let (mut page, shown) = numbered(lines, part.offset, MAX_PAGE);
    let end = part.offset + shown;
    if end < total {
        let _ = write!(page, "\n[the file has {total} lines; read on with offset {end}]");
    }
    page
}

/// Returns the changed lines of the new text with some lines of context.
pub(in crate::tools) fn snippet(before: &str, after: &str) -> String {
    let (old, new) = (before.lines().count(), after.lines().count());
    let starts = before.lines().zip(after.lines());
    let same = starts.take_while(|(old, new)| old == new).count();
    let ends = before.lines().rev().zip(after.lines().rev()).take(old.min(new) - same);
    let same_end = ends.take_while(|(old, new)| old == new).count();
    let start = same.saturating_sub(CONTEXT);
    let end = (new - same_end + CONTEXT).min(new);
    let count = end.saturating_sub(start);
    let lines = after.lines().skip(start).take(count.min(MAX_SNIPPET_LINES));
    let (mut text, shown) = numbered(lines, start, MAX_SNIPPET);
    if new == 0 {
        text.push_str("[the file is empty]");
    }
    if shown < count {
        let _ = write!(text, "\n[{} more lines]", count - shown);
    }
    text
}

/// Formats numbered lines up to `room` bytes, but at least one. Returns the text and the number of
/// lines.
fn numbered<'a>(
    lines: impl Iterator<Item = &'a str>,
    offset: usize,
    room: usize,
) -> (String, usize) {
    let mut text = String::new();
    let mut shown = 0;
    for line in lines {
        if shown > 0 && text.len() + line.len().min(MAX_LINE) > room {
            break;
        }
        shown += 1;
        let _ = write!(text, "{}{:>6}→", if shown == 1 { "" } else { "\n" }, offset + shown);
        match line.char_indices().nth(MAX_LINE) {
            None => text.push_str(line),
            Some((end, _)) => {
                let length = line.chars().count();
                let _ = write!(
                    text,
                    "{}… [the line has {length} characters]",
                    line.get(..end).unwrap_or_default()
                );
            }
        }
    }
    (text, shown)
}
