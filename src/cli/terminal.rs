//! Text for terminals. What models and tools write must not move the cursor, change a title or
//! hide what stands before it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, stderr, stdin, stdout};

/// Characters of a line that tells of a call.
const MAX_LINE: usize = 160;

/// Which of the three streams are terminals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terminals {
    pub(super) input: bool,
    pub(super) output: bool,
    pub(super) words: bool,
}

impl Terminals {
    pub(super) fn look() -> Self {
        Self {
            input: stdin().is_terminal(),
            output: stdout().is_terminal(),
            words: stderr().is_terminal(),
        }
    }
}

/// Whether a terminal would do something else with a character than show it: control characters of
/// both sets, and those that turn the direction of what follows.
fn acts(c: char) -> bool {
    let is_line = matches!(c, '\n' | '\t');
    (c.is_control() && !is_line)
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text that a terminal only shows: what it would act on is written as its code, such as
/// `\u{1b}`. Line breaks and tabs stay.
pub(super) fn safe(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\r' && rest.peek() == Some(&'\n') {
            continue;
        }
        if acts(c) {
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The same on one line, and not too long.
pub(super) fn one_line(text: &str) -> String {
    let mut line: String = safe(text).replace(['\n', '\t'], " ");
    if let Some((end, _)) = line.char_indices().nth(MAX_LINE) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// JSON that a terminal only shows, and that still says the same. Strings are the only place where
/// JSON may have such characters.
pub(super) fn safe_json(json: &str) -> Cow<'_, str> {
    if !json.contains(acts) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if acts(c) {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_written_as_its_code() {
        let tricks = "a\u{1b}]0;title\u{7}b\u{9b}2Jc\rd\u{8}e\u{7f}\u{202e}f";
        let shown = r"a\u{1b}]0;title\u{7}b\u{9b}2Jc\u{d}d\u{8}e\u{7f}\u{202e}f";
        assert_eq!(safe(tricks), shown);
    }

    #[test]
    fn what_it_only_shows_stays() {
        let text = "two\n\tlines: å 漢字 👩\u{200d}🔬 ❤\u{fe0f}";
        assert!(matches!(safe(text), Cow::Borrowed(shown) if shown == text));
        assert_eq!(safe("ends of\r\nlines\r\n"), "ends of\nlines\n");
    }

    #[test]
    fn json_says_the_same_when_it_is_made_safe() {
        let json = "{\"a\":\"\u{9b}2J\u{202e}\u{7f}å\"}";
        let shown = safe_json(json);
        assert_eq!(shown, r#"{"a":"\u009b2J\u202e\u007få"}"#);
        let value = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(json));
    }

    #[test]
    fn a_line_is_one_and_ends() {
        assert_eq!(one_line("a\nb\tc\u{1b}"), r"a b c\u{1b}");
        assert_eq!(one_line(&"x".repeat(500)).chars().count(), MAX_LINE + 1);
    }
}
