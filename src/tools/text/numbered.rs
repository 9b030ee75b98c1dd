//! Numbered lines in the format of `cat -n`.

use std::fmt::Write as _;

/// The maximum number of characters shown of a line.
const MAX_LINE: usize = 2000;
/// The maximum size of a page, in bytes. It is less than the limit of a result, so that pages end
/// between lines.
const MAX_PAGE: usize = 96 * 1024;

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

/// Formats numbered lines up to `room` bytes, but at least one. Returns the text and the number of
/// lines.
pub(super) fn numbered<'a>(
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
