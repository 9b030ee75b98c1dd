//! Invisible characters in text that the model reads and that people do not see.
//!
//! Tag characters spell ASCII text that a model reads as an instruction. Variation selectors and
//! zero-width characters carry bytes. They are shown by their code, such as `<U+E0041>`, except where
//! text needs them: flags of England, Scotland and Wales, a variation selector after a character that
//! has variants, and short sequences of zero-width and direction characters, which emoji and many
//! scripts use.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Maximum number of adjacent invisible characters that text needs.
const MAX_RUN: usize = 3;
/// Maximum number of adjacent invisible characters that are shown by their codes.
const MAX_SHOWN: usize = 20;
/// The character that begins a flag of tag characters.
const BLACK_FLAG: char = '\u{1f3f4}';
/// The tag characters of the flags of England, Scotland and Wales, after [`BLACK_FLAG`].
const FLAGS: [&str; 3] = [
    "\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "\u{e0067}\u{e0062}\u{e0077}\u{e006c}\u{e0073}\u{e007f}",
];

/// Returns the text with the codes of hidden characters in their place.
pub fn show_hidden(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(is_invisible) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_invisible) {
        let (visible, from) = rest.split_at(at);
        shown.push_str(visible);
        let end = from.find(|c: char| !is_invisible(c)).unwrap_or(from.len());
        let (run, after) = from.split_at(end);
        show_run(&mut shown, visible.chars().next_back(), run);
        rest = after;
    }
    shown.push_str(rest);
    shown.into()
}

/// Returns the text with the codes of hidden characters in their place.
pub fn into_shown(text: String) -> String {
    match show_hidden(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(shown) => shown,
    }
}

/// Returns the text with hidden characters in place of their codes, or `None` if it has no such
/// codes.
pub fn restore_hidden(text: &str) -> Option<String> {
    let mut restored = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("<U+") {
        let (before, from) = rest.split_at(at);
        restored.push_str(before);
        if let Some((hidden, after)) = hidden_character(from) {
            restored.push(hidden);
            rest = after;
        } else {
            restored.push_str("<U+");
            rest = from.get("<U+".len()..).unwrap_or_default();
        }
    }
    restored.push_str(rest);
    (restored != text).then_some(restored)
}

/// Splits the code of a hidden character from the text that follows it.
fn hidden_character(text: &str) -> Option<(char, &str)> {
    let (code, after) = text.strip_prefix("<U+")?.split_once('>')?;
    let is_code = (4..=6).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_hexdigit());
    let hidden = char::from_u32(u32::from_str_radix(code, 16).ok()?)?;
    (is_code && is_invisible(hidden)).then_some((hidden, after))
}

/// Writes adjacent invisible characters. `base` is the visible character before them.
fn show_run(shown: &mut String, base: Option<char>, run: &str) {
    let flag = FLAGS.iter().find(|flag| base == Some(BLACK_FLAG) && run.starts_with(**flag));
    let (flag, run) = run.split_at(flag.map_or(0, |flag| flag.len()));
    shown.push_str(flag);
    let base = base.filter(|_| flag.is_empty());
    let count = run.chars().count();
    for (position, c) in run.chars().enumerate() {
        let base = base.filter(|_| position == 0);
        if count <= MAX_RUN && is_needed(c, base) {
            shown.push(c);
        } else if position < MAX_SHOWN {
            let _ = write!(shown, "<U+{:04X}>", u32::from(c));
        } else {
            let _ = write!(shown, "<{} more invisible characters>", count - MAX_SHOWN);
            break;
        }
    }
}

/// Returns `true` if text may need an invisible character after this base.
fn is_needed(c: char, base: Option<char>) -> bool {
    match c {
        '\u{fe00}'..='\u{fe0f}' => {
            base.is_some_and(|base| !base.is_ascii() || matches!(base, '0'..='9' | '#' | '*'))
        }
        '\u{e0100}'..='\u{e01ef}' => base.is_some_and(is_ideograph),
        // Overrides of the direction, deprecated controls, annotations, tag characters, and
        // unassigned characters next to them.
        '\u{202d}'..='\u{202e}'
        | '\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => false,
        _ => true,
    }
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

/// Returns `true` if a character is not displayed. White space and control characters are not
/// included: a model and a person notice them.
pub(crate) const fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tag characters that spell an ASCII text.
    fn tags(text: &str) -> String {
        text.bytes().filter_map(|byte| char::from_u32(0xe0000 + u32::from(byte))).collect()
    }

    #[test]
    fn tag_characters_are_shown_by_their_codes() {
        assert_eq!(show_hidden(&format!("a{}b", tags("Hi"))), "a<U+E0048><U+E0069>b");
        assert_eq!(show_hidden("\u{e0001}"), "<U+E0001>");
        let long = show_hidden(&tags(&"x".repeat(100))).into_owned();
        assert!(long.ends_with("<U+E0078><80 more invisible characters>"), "{long}");
    }

    #[test]
    fn carriers_of_hidden_data_are_shown_by_their_codes() {
        for (hidden, shown) in [
            // Bytes as variation selectors, and a selector after a letter that has no variants.
            ("😀\u{e0148}\u{e0159}", "😀<U+E0148><U+E0159>"),
            ("a\u{fe01}b", "a<U+FE01>b"),
            ("😀\u{fe0f}\u{fe01}", "😀\u{fe0f}<U+FE01>"),
            // Bits as zero-width characters.
            ("\u{200b}\u{200c}\u{200b}\u{2060}", "<U+200B><U+200C><U+200B><U+2060>"),
            // A reversed direction.
            ("a\u{202e}b", "a<U+202E>b"),
            ("\u{fff9}a", "<U+FFF9>a"),
        ] {
            assert_eq!(show_hidden(hidden), shown, "{hidden:?}");
        }
        // A flag covers no other text.
        let flag = format!("🏴{}", tags("gbeng\x7f"));
        assert_eq!(show_hidden(&format!("{flag}{}", tags("a"))), format!("{flag}<U+E0061>"));
        let other = format!("🏴{}", tags("no"));
        assert_eq!(show_hidden(&other), "🏴<U+E006E><U+E006F>");
    }

    #[test]
    fn invisible_characters_that_text_needs_stay() {
        let flags =
            ["gbeng", "gbsct", "gbwls"].map(|name| format!("🏴{}", tags(&format!("{name}\x7f"))));
        let texts = [
            "plain ASCII\n\t\u{1b}[31m",
            "å ß 漢字 🙂",
            // Family, heart on fire, rainbow flag, keycap.
            "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}\u{200d}🔥 🏳\u{fe0f}\u{200d}🌈 1\u{fe0f}\u{20e3}",
            // Persian, Sinhala, Thai, Hebrew, a variant of an ideograph, a soft hyphen.
            "می\u{200c}خواهم ශ\u{200d}රී ภาษา\u{200b}ไทย \u{200f}א\u{200e} 葛\u{e0100} Wort\u{ad}teil",
            "\u{feff}marked",
        ];
        for text in texts.into_iter().chain(flags.iter().map(String::as_str)) {
            assert_eq!(show_hidden(text), text);
        }
    }

    #[test]
    fn codes_of_hidden_characters_are_restored_and_others_stay() {
        let hidden = format!("a{}b\u{202e}", tags("Hi"));
        assert_eq!(restore_hidden(&show_hidden(&hidden)).as_deref(), Some(hidden.as_str()));
        for text in ["", "plain", "<U+0041>", "<U+E0041", "<U+E00411>", "<U+ >", "<U+E0041 >"] {
            assert_eq!(restore_hidden(text), None, "{text}");
        }
        assert_eq!(restore_hidden("<U+<U+200B>").as_deref(), Some("<U+\u{200b}"));
    }

    #[test]
    fn a_shown_text_is_shown_unchanged() {
        let text = format!("a{}b\u{202e}\u{200b}\u{200b}\u{200b}\u{200b}", tags(&"x".repeat(50)));
        let shown = show_hidden(&text).into_owned();
        assert_eq!(show_hidden(&shown), shown);
    }
}
