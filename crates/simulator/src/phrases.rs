//! Helpers for English phrases.

/// `a`, `a and b`, or `a, b and c`.
pub(crate) fn join(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `1 line`, `2 lines`.
pub(crate) fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}

/// Returns the beginning of `text` on one line, at most `most` characters.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
        None => line,
    }
}

/// Returns the first `most` names in code quotes, and the number of the others.
pub(crate) fn names(names: &[String], most: usize) -> String {
    let mut shown: Vec<String> = names.iter().take(most).map(|name| format!("`{name}`")).collect();
    if names.len() > most {
        shown.push(format!("{} more", names.len() - most));
    }
    join(&shown)
}
