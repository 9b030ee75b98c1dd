//! Words of a user's text that look like files, folders or time zones.

/// File names without an extension.
const BARE: [&str; 6] = ["Makefile", "Dockerfile", "README", "LICENSE", "CHANGELOG", "Justfile"];

/// The areas of IANA time zone names.
const AREAS: [&str; 11] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Etc",
    "Europe",
    "Indian",
    "Pacific",
];

/// Removes quotes and punctuation around a word. A leading dot belongs to the word.
pub(super) fn bare(word: &str) -> &str {
    let around =
        |c: char| matches!(c, '"' | '\'' | '`' | '(' | ')' | '<' | '>' | '“' | '”' | '«' | '»');
    let after = |c: char| around(c) || matches!(c, ',' | ';' | ':' | '!' | '?' | '.');
    word.trim_start_matches(around).trim_end_matches(after)
}

/// True if the word is an absolute path.
pub(super) fn is_absolute(word: &str) -> bool {
    word.strip_prefix('/').is_some_and(|rest| rest.starts_with(char::is_alphanumeric))
}

/// True if the word names a file.
pub(super) fn is_file(word: &str) -> bool {
    if word.contains("://") || is_zone(word) {
        return false;
    }
    let name = word.rsplit('/').next().unwrap_or_default();
    if BARE.contains(&name) {
        return true;
    }
    let Some((stem, extension)) = name.rsplit_once('.') else {
        return false;
    };
    let plain = extension.chars().all(|c| c.is_ascii_alphanumeric())
        && extension.starts_with(|c: char| c.is_ascii_alphabetic());
    let hidden = stem.is_empty() && extension.len() > 2;
    plain && extension.len() <= 10 && (hidden || is_stem(stem, extension))
}

/// Excludes abbreviations such as `e.g` and `i.e`.
fn is_stem(stem: &str, extension: &str) -> bool {
    let known = ["c", "h", "d", "r", "v"].contains(&extension);
    stem.chars().any(char::is_alphanumeric) && (known || extension.len() > 1 || stem.len() > 1)
}

/// True if the word names an IANA time zone.
pub(super) fn is_zone(word: &str) -> bool {
    word == "UTC" || word.split_once('/').is_some_and(|(area, _)| AREAS.contains(&area))
}
