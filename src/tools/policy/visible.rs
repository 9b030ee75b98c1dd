//! Detection and display of invisible and misleading Unicode characters.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::domain::hidden_text::is_invisible;

/// Returns `true` if a text has invisible characters, characters that change the text direction, or
/// characters that only resemble a space. Line breaks and tabs count as such.
pub(super) fn has_hidden(text: &str) -> bool {
    text.chars().any(is_hidden)
}

/// Escapes the invisible characters of a text for display to a person, such as `\u{202e}`. Keeps
/// line breaks and tabs.
pub fn visible(text: &str) -> Cow<'_, str> {
    let shows = |c: char| !is_hidden(c) || matches!(c, '\n' | '\t');
    if text.chars().all(shows) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if shows(c) {
            shown.push(c);
        } else {
            let _ = write!(shown, "{}", c.escape_unicode());
        }
    }
    Cow::Owned(shown)
}

/// Returns `true` if a character is invisible or only resembles a space.
pub(super) fn is_hidden(c: char) -> bool {
    if c == ' ' {
        return false;
    }
    c.is_control() || c.is_whitespace() || is_ignorable(c)
}

/// Returns `true` for characters that are not displayed, format characters that are, blank patterns,
/// and characters that programs render differently.
fn is_ignorable(c: char) -> bool {
    is_invisible(c)
        || matches!(
            c,
            '\u{600}'..='\u{605}'
                | '\u{6dd}'
                | '\u{70f}'
                | '\u{890}'..='\u{891}'
                | '\u{8e2}'
                | '\u{2800}'
                | '\u{e000}'..='\u{f8ff}'
                | '\u{110bd}'
                | '\u{110cd}'
                | '\u{13430}'..='\u{1343f}'
                | '\u{e1000}'..='\u{10ffff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_show_is_written_as_its_code() {
        assert_eq!(visible("rm -rf \u{202e}txt.\u{200b}x"), r"rm -rf \u{202e}txt.\u{200b}x");
        assert_eq!(visible("a\u{a0}b\rc\u{1b}[2K"), r"a\u{a0}b\u{d}c\u{1b}[2K");
    }

    #[test]
    fn what_shows_stays() {
        let text = "first line\n\tsecond: å ß 漢字 🙂";
        assert!(matches!(visible(text), Cow::Borrowed(shown) if shown == text));
        assert!(!has_hidden("å ß 漢字 🙂 'quoted' \\ $x"));
    }
}
