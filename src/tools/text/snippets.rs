//! The changed lines of a file, as the result of a change shows them.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline};

use super::numbered::numbered;

/// The number of lines shown before and after a change.
const CONTEXT: usize = 4;
/// The maximum size of all snippets of a change together, in bytes and in lines.
const MAX_BYTES: usize = 24 * 1024;
const MAX_LINES: usize = 400;
/// The maximum number of snippets.
const MAX_SNIPPETS: usize = 32;
/// The time limit for finding the shortest difference, and the number of lines up to which it is
/// searched.
const TIMEOUT: Duration = Duration::from_millis(200);
const MAX_COMPARED: usize = 20_000;

/// Returns the changed lines of the new text with some lines of context: one snippet for each place
/// that changed. Places that are near each other have one snippet.
pub(in crate::tools) fn snippets(before: &str, after: &str) -> String {
    let old: Vec<&str> = before.lines().collect();
    let new: Vec<&str> = after.lines().collect();
    let places = with_context(&changed(&old, &new), new.len());
    let shown = places.get(..places.len().min(MAX_SNIPPETS)).unwrap_or_default();
    // Each place has its part of the room, so that a long one does not hide the others.
    let (bytes, lines) = (MAX_BYTES / shown.len().max(1), MAX_LINES / shown.len().max(1));
    let mut text = String::new();
    let mut end = 0;
    for place in shown {
        if !text.is_empty() {
            let skipped = place.start - end;
            let lines = if skipped == 1 { "line" } else { "lines" };
            let _ = write!(text, "\n[{skipped} unchanged {lines}]\n");
        }
        let room = place.start..place.end.min(place.start + lines);
        let part = new.get(room).unwrap_or_default();
        let (part, count) = numbered(part.iter().copied(), place.start, bytes);
        text.push_str(&part);
        if count < place.len() {
            let _ = write!(text, "\n[{} more lines]", place.len() - count);
        }
        end = place.end;
    }
    if places.len() > shown.len() {
        let _ = write!(text, "\n[{} more changes]", places.len() - shown.len());
    }
    if new.is_empty() {
        text.push_str("[the file is empty]");
    }
    text
}

/// Returns the ranges of changed lines in the new text. A range is empty where lines were removed.
fn changed(old: &[&str], new: &[&str]) -> Vec<Range<usize>> {
    let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - same;
    let ends = old.iter().rev().zip(new.iter().rev()).take(rest);
    let same_end = ends.take_while(|(old, new)| old == new).count();
    let old = old.get(same..old.len() - same_end).unwrap_or_default();
    let whole = same..new.len() - same_end;
    let new = new.get(whole.clone()).unwrap_or_default();
    if old.len() + new.len() > MAX_COMPARED {
        return vec![whole];
    }
    let deadline = Some(Instant::now() + TIMEOUT);
    let parts = capture_diff_slices_deadline(Algorithm::Myers, old, new, deadline);
    let parts = parts.iter().filter(|part| part.tag() != DiffTag::Equal);
    let found: Vec<Range<usize>> =
        parts.map(DiffOp::new_range).map(|range| same + range.start..same + range.end).collect();
    if found.is_empty() { vec![whole] } else { found }
}

/// Extends ranges by their context, and joins those that then touch.
fn with_context(changed: &[Range<usize>], total: usize) -> Vec<Range<usize>> {
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in changed {
        let (start, end) = (range.start.saturating_sub(CONTEXT), (range.end + CONTEXT).min(total));
        match joined.last_mut() {
            Some(last) if start <= last.end => last.end = end.max(last.end),
            _ => joined.push(start..end),
        }
    }
    joined
}
