//! Safe text for terminals: output of models and tools must not move the cursor, change the window
//! title or hide other text.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, stderr, stdin, stdout};

use rustix::termios::tcgetwinsize;

/// Maximum number of characters of a shortened line.
const MAX_LINE: usize = 160;

/// The standard streams that are terminals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terminals {
    pub(super) input: bool,
    pub(super) output: bool,
    pub(super) messages: bool,
}

impl Terminals {
    /// True if a user reads and types at a terminal.
    pub(super) fn is_interactive(self) -> bool {
        self.input && self.output && self.messages
    }

    pub(super) fn detect() -> Self {
        Self {
            input: stdin().is_terminal(),
            output: stdout().is_terminal(),
            messages: stderr().is_terminal(),
        }
    }
}

/// The columns of the terminal at stdout; 80 if they are unknown.
pub(super) fn columns() -> usize {
    let size = tcgetwinsize(stdout()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

/// Returns true if a terminal interprets the character instead of showing it: control characters
/// and characters that change the text direction.
fn is_active(c: char) -> bool {
    let is_line = matches!(c, '\n' | '\t');
    (c.is_control() && !is_line)
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes the characters that a terminal would interpret, such as `\u{1b}`. Line breaks and tabs
/// stay.
pub(super) fn safe(text: &str) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\r' && rest.peek() == Some(&'\n') {
            continue;
        }
        if is_active(c) {
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Escapes a text, joins its lines and shortens it.
pub(super) fn one_line(text: &str) -> String {
    let mut line: String = safe(text).replace(['\n', '\t'], " ");
    if let Some((end, _)) = line.char_indices().nth(MAX_LINE) {
        line.truncate(end);
        line.push('…');
    }
    line
}

/// Escapes the characters that a terminal would interpret, without changing the JSON value. They
/// occur only inside strings.
pub(super) fn safe_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_active) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_active(c) {
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
    fn characters_that_a_terminal_interprets_are_escaped() {
        let tricks = "a\u{1b}]0;title\u{7}b\u{9b}2Jc\rd\u{8}e\u{7f}\u{202e}f";
        let shown = r"a\u{1b}]0;title\u{7}b\u{9b}2Jc\u{d}d\u{8}e\u{7f}\u{202e}f";
        assert_eq!(safe(tricks), shown);
    }

    #[test]
    fn other_characters_stay_unchanged() {
        let text = "two\n\tlines: å 漢字 👩\u{200d}🔬 ❤\u{fe0f}";
        assert!(matches!(safe(text), Cow::Borrowed(shown) if shown == text));
        assert_eq!(safe("ends of\r\nlines\r\n"), "ends of\nlines\n");
    }

    #[test]
    fn escaping_does_not_change_the_json_value() {
        let json = "{\"a\":\"\u{9b}2J\u{202e}\u{7f}å\"}";
        let shown = safe_json(json);
        assert_eq!(shown, r#"{"a":"\u009b2J\u202e\u007få"}"#);
        let value = |text| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&shown), value(json));
    }

    #[test]
    fn lines_are_joined_and_shortened() {
        assert_eq!(one_line("a\nb\tc\u{1b}"), r"a b c\u{1b}");
        assert_eq!(one_line(&"x".repeat(500)).chars().count(), MAX_LINE + 1);
    }
}
