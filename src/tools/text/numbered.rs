//! Lines with their numbers, as `cat -n` shows them.

use std::fmt::Write as _;

/// The characters of a line that are shown.
const MAX_LINE: usize = 2000;
/// The bytes of a page: less than a result may have, so that pages are cut between lines.
const MAX_PAGE: usize = 96 * 1024;
/// The lines shown around a change.
const CONTEXT: usize = 4;
/// The bytes and lines shown of a change.
const MAX_SNIPPET: usize = 24 * 1024;
const MAX_SNIPPET_LINES: usize = 400;

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tools) struct Part {
    /// Lines to skip.
    pub(in crate::tools) offset: usize,
    /// Lines to show at most.
    pub(in crate::tools) limit: usize,
}

/// The lines of a part, and how to read on.
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

/// The lines that differ, as they are now, with some around them.
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

/// Lines with their numbers, as many as there is room for but at least one, and how many.
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
