//! The form of names and ids of calls that model servers accept in a history.

/// The maximum length of a name or an id of a call in the Messages API.
pub const MAX_WORD: usize = 128;

/// Returns `true` for 1 to `most` of letters, digits, `_` and `-`.
pub fn is_word(text: &str, most: usize) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=most).contains(&text.len()) && text.chars().all(is_plain)
}

/// Returns the beginning of a name or an id that is not a word, for errors and logs.
pub fn shown(text: &str) -> String {
    const SHOWN: usize = 40;
    let end = text.floor_char_boundary(SHOWN);
    let start = text.get(..end).unwrap_or_default();
    let rest = if end < text.len() {
        format!(" and {} more bytes", text.len() - end)
    } else {
        String::new()
    };
    format!("{start:?}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_letters_digits_underscores_and_hyphens() {
        let longest = "x".repeat(MAX_WORD);
        for text in ["a", "mcp__a__B-9", &longest] {
            assert!(is_word(text, MAX_WORD), "{text}");
        }
        let long = "x".repeat(MAX_WORD + 1);
        for text in ["", "a b", "a.b", "\u{e5}", "a\0", &long] {
            assert!(!is_word(text, MAX_WORD), "{text:?}");
        }
    }

    #[test]
    fn a_long_text_is_shown_in_part() {
        assert_eq!(shown("a b"), "\"a b\"");
        let text = shown(&"x".repeat(10_000));
        assert_eq!(text, format!("{:?} and 9960 more bytes", "x".repeat(40)));
    }
}
