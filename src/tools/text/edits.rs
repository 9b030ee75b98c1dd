//! Text replacement. Text outside of the replaced occurrences keeps its bytes, including line ends.

use std::borrow::Cow;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::hidden_text::restore_hidden;
use crate::tools::error::ToolError;
use crate::tools::workspace::MAX_FILE;

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::tools) struct Edit {
    /// The text to replace, exactly as it is in the file, without the line numbers of Read.
    pub(in crate::tools) old_string: String,
    /// The new text.
    pub(in crate::tools) new_string: String,
    /// Replaces every occurrence. If false, there must be exactly one.
    #[serde(default)]
    pub(in crate::tools) replace_all: bool,
}

impl Edit {
    /// Returns the inverse edit. It restores the text if nothing else has changed.
    pub(in crate::tools) fn inverse(&self) -> Self {
        Self {
            old_string: self.new_string.clone(),
            new_string: self.old_string.clone(),
            replace_all: self.replace_all,
        }
    }
}

/// Applies edits in order, each to the result of the previous one. Applies all of them or none.
pub(in crate::tools) fn apply_all(text: &str, edits: &[Edit]) -> Result<String, ToolError> {
    let total = edits.len();
    let mut text = Cow::Borrowed(text);
    for (number, edit) in (1..).zip(edits) {
        let changed = apply(&text, edit).map_err(|error| {
            ToolError::Invalid(format!("edit {number} of {total}: {error}; no edit was made"))
        })?;
        text = Cow::Owned(changed);
    }
    Ok(text.into_owned())
}

/// Applies one edit. Hidden characters of the file may be given by the codes that the model reads in
/// their place.
pub(in crate::tools) fn apply(text: &str, edit: &Edit) -> Result<String, ToolError> {
    match with_hidden(text, edit) {
        Some(edit) => apply_exact(text, &edit),
        None => apply_exact(text, edit),
    }
}

/// Returns the edit with hidden characters in place of their codes, if only then the old text is in
/// the file.
fn with_hidden(text: &str, edit: &Edit) -> Option<Edit> {
    let old_string = restore_hidden(&edit.old_string)?;
    let text = unix(text);
    if text.contains(unix(&edit.old_string).as_ref()) || !text.contains(unix(&old_string).as_ref())
    {
        return None;
    }
    let new_string = restore_hidden(&edit.new_string).unwrap_or_else(|| edit.new_string.clone());
    Some(Edit { old_string, new_string, replace_all: edit.replace_all })
}

fn apply_exact(text: &str, edit: &Edit) -> Result<String, ToolError> {
    let invalid = |text: &str| Err(ToolError::Invalid(text.to_owned()));
    if edit.old_string == edit.new_string {
        return invalid("old_string and new_string are the same");
    }
    if edit.old_string.is_empty() {
        return if text.trim().is_empty() {
            Ok(edit.new_string.clone())
        } else {
            invalid("old_string is empty, and the file is not")
        };
    }
    let plain = Plain::of(text);
    let old = unix(&edit.old_string);
    let found: Vec<usize> = plain.text.match_indices(old.as_ref()).map(|(at, _)| at).collect();
    if found.is_empty() {
        return invalid("old_string not found in file");
    }
    if found.len() > 1 && !edit.replace_all {
        let times = found.len();
        return Err(ToolError::Invalid(format!(
            "old_string occurs {times} times in the file: include more of the surrounding text, or \
             set replace_all"
        )));
    }
    // Many short matches with a long replacement could exhaust memory.
    let longest = found.len().saturating_mul(2 * edit.new_string.len()).saturating_add(text.len());
    if longest > 2 * MAX_FILE {
        return invalid("the file would become too large");
    }
    let changed = plain.replaced(&found, old.len(), &edit.new_string);
    if changed == text { invalid("the edit changes nothing") } else { Ok(changed) }
}

/// Converts CRLF line ends to LF, as the model reads them.
pub(in crate::tools) fn unix(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { text.replace("\r\n", "\n").into() } else { text.into() }
}

/// Converts a new text to CRLF if the text that it replaces has only CRLF line ends.
pub(in crate::tools) fn with_line_ends_of(before: &str, text: &str) -> String {
    let ends = before.matches('\n').count();
    let is_dos = ends > 0 && before.matches("\r\n").count() == ends;
    if is_dos && !text.contains("\r\n") { text.replace('\n', "\r\n") } else { text.to_owned() }
}

/// A text with LF line ends, and the mapping to the original text.
struct Plain<'a> {
    original: &'a str,
    text: Cow<'a, str>,
    /// The offsets in `text` of line ends that are CRLF in the original.
    dos: Vec<usize>,
    /// The offsets in `text` of all line ends, if the original mixes LF and CRLF.
    ends: Vec<usize>,
}

impl<'a> Plain<'a> {
    fn of(original: &'a str) -> Self {
        let text = unix(original);
        let dos: Vec<usize> = original
            .match_indices("\r\n")
            .enumerate()
            .map(|(earlier, (at, _))| at - earlier)
            .collect();
        let is_mixed = !dos.is_empty() && text.matches('\n').count() > dos.len();
        let ends = if is_mixed {
            text.match_indices('\n').map(|(at, _)| at).collect()
        } else {
            Vec::new()
        };
        Self { original, text, dos, ends }
    }

    /// Maps an offset in `text` to the offset in the original.
    fn place(&self, at: usize) -> usize {
        at + self.dos.partition_point(|end| *end < at)
    }

    fn part(&self, range: Range<usize>) -> &'a str {
        self.original.get(range).unwrap_or_default()
    }

    /// Returns the original with the occurrences at `found`, each of `length` bytes, replaced.
    fn replaced(&self, found: &[usize], length: usize, new: &str) -> String {
        let mut changed = String::with_capacity(self.original.len());
        let mut done = 0;
        for at in found {
            let (start, end) = (self.place(*at), self.place(at + length));
            changed.push_str(self.part(done..start));
            let old = self.part(start..end);
            let Common { prefix: before, suffix: after } = common_prefix_and_suffix(old, new);
            changed.push_str(old.get(..before.old).unwrap_or_default());
            let middle = new.get(before.new..new.len() - after.new).unwrap_or_default();
            if self.is_dos_at(*at) {
                changed.push_str(&unix(middle).replace('\n', "\r\n"));
            } else {
                changed.push_str(middle);
            }
            changed.push_str(old.get(old.len() - after.old..).unwrap_or_default());
            done = end;
        }
        changed.push_str(self.part(done..self.original.len()));
        changed
    }

    /// Returns whether a line inserted at this offset ends in CRLF. It ends as the next line does,
    /// or as the last line at the end of the text.
    fn is_dos_at(&self, at: usize) -> bool {
        if self.ends.is_empty() {
            return !self.dos.is_empty();
        }
        let next = self.ends.partition_point(|end| *end < at);
        let end = self.ends.get(next).or(self.ends.last());
        end.is_some_and(|end| self.dos.binary_search(end).is_ok())
    }
}

/// The length of a common part in the old and in the new text, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Length {
    old: usize,
    new: usize,
}

/// The common parts of two texts.
#[derive(Debug, Clone, Copy)]
struct Common {
    prefix: Length,
    suffix: Length,
}

/// Returns the lengths of the common prefix and suffix of two texts. LF and CRLF are equal.
fn common_prefix_and_suffix(old: &str, new: &str) -> Common {
    let mut before = Length::default();
    while let (Some(left), Some(right)) = (first(old, before.old), first(new, before.new)) {
        if left.0 != right.0 {
            break;
        }
        before = Length { old: before.old + left.1, new: before.new + right.1 };
    }
    let old = old.get(before.old..).unwrap_or_default();
    let new = new.get(before.new..).unwrap_or_default();
    let mut after = Length::default();
    while let (Some(left), Some(right)) =
        (last(old, old.len() - after.old), last(new, new.len() - after.new))
    {
        if left.0 != right.0 {
            break;
        }
        after = Length { old: after.old + left.1, new: after.new + right.1 };
    }
    Common { prefix: before, suffix: after }
}

/// Returns the character at an offset and its length in bytes. CRLF counts as one character.
fn first(text: &str, at: usize) -> Option<(char, usize)> {
    let rest = text.get(at..)?;
    if rest.starts_with("\r\n") {
        return Some(('\n', 2));
    }
    rest.chars().next().map(|c| (c, c.len_utf8()))
}

fn last(text: &str, end: usize) -> Option<(char, usize)> {
    let rest = text.get(..end)?;
    if rest.ends_with("\r\n") {
        return Some(('\n', 2));
    }
    rest.chars().next_back().map(|c| (c, c.len_utf8()))
}
