//! Markdown on a terminal: text that is wrapped at words while it streams. Code blocks and tables keep
//! their lines.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr};

/// The sequences that begin and end a style.
const BOLD: (&str, &str) = ("\u{1b}[1m", "\u{1b}[22m");
const CODE: (&str, &str) = ("\u{1b}[36m", "\u{1b}[39m");
const FAINT: (&str, &str) = ("\u{1b}[2m", "\u{1b}[22m");
/// The fences of code blocks.
const FENCES: [&str; 2] = ["```", "~~~"];

/// A text that streams. Its pieces must not contain control characters.
#[derive(Debug)]
pub(super) struct Markdown {
    width: usize,
    /// The received text that is not rendered yet: the beginning of a line, or a word.
    pending: String,
    line: Line,
    /// The column after the rendered text.
    column: usize,
    /// True if a space separates the next word from the rendered text.
    has_space: bool,
    is_bold: bool,
    is_code: bool,
    /// The fence of the open code block.
    fence: Option<&'static str>,
    rendered: String,
}

/// The kind of the current line.
#[derive(Debug)]
enum Line {
    /// Too little is known.
    Undecided,
    /// Words that are wrapped; later lines begin with this text.
    Words { prefix: String },
    /// Text that keeps its form.
    Verbatim,
}

impl Markdown {
    /// A text on a terminal with this number of columns.
    pub(super) fn new(width: usize) -> Self {
        Self {
            width: width.max(20),
            pending: String::new(),
            line: Line::Undecided,
            column: 0,
            has_space: false,
            is_bold: false,
            is_code: false,
            fence: None,
            rendered: String::new(),
        }
    }

    /// Adds a piece, and returns what can be shown now.
    pub(super) fn push(&mut self, piece: &str) -> String {
        for c in piece.chars() {
            self.add(c);
        }
        std::mem::take(&mut self.rendered)
    }

    /// Returns the text that waits for the rest of its word, unless it may be the mark of a block.
    pub(super) fn flush(&mut self) -> String {
        let begins_text = self.pending.starts_with(char::is_alphabetic);
        match self.line {
            Line::Words { .. } => self.word(),
            Line::Undecided if begins_text && self.fence.is_none() => {
                self.line = Line::Words { prefix: String::new() };
                self.word();
            }
            Line::Undecided | Line::Verbatim => {}
        }
        std::mem::take(&mut self.rendered)
    }

    /// Ends the text, and returns its rest with the line break at its end.
    pub(super) fn finish(&mut self) -> String {
        let rest = self.interrupt();
        self.fence = None;
        rest
    }

    /// Ends the line for another text, after which this one continues: a code block stays open.
    pub(super) fn interrupt(&mut self) -> String {
        let is_new = matches!(self.line, Line::Undecided) && self.column == 0;
        if !self.pending.is_empty() || !is_new {
            self.add('\n');
        }
        std::mem::take(&mut self.rendered)
    }

    fn add(&mut self, c: char) {
        if c == '\n' {
            return self.end_line();
        }
        match &self.line {
            Line::Verbatim => self.put(c),
            Line::Undecided => {
                self.pending.push(c);
                self.decide(c);
            }
            Line::Words { .. } if c.is_whitespace() => {
                self.word();
                self.has_space = true;
            }
            Line::Words { .. } => {
                // Characters of two columns, such as Chinese ones, need no space between words.
                let is_wide = c.width() == Some(2);
                if is_wide {
                    self.word();
                }
                self.pending.push(c);
                if is_wide {
                    self.word();
                }
            }
        }
    }

    fn put(&mut self, c: char) {
        self.column += c.width().unwrap_or(0);
        self.rendered.push(c);
    }

    /// Decides the kind of a line when its first word is complete.
    fn decide(&mut self, last: char) {
        let text = self.pending.trim_start_matches(' ');
        let indent = self.pending.len() - text.len();
        let is_fence = |fence: &&str| fence.starts_with(text) || text.starts_with(*fence);
        if self.fence.is_some() {
            // Only a fence may still end the block.
            if !text.is_empty() && !FENCES.iter().any(is_fence) {
                self.begin_verbatim();
            }
            return;
        }
        if text.starts_with('|') {
            return self.begin_verbatim();
        }
        if last.width() == Some(2) {
            self.line = Line::Words { prefix: String::new() };
            return self.word();
        }
        if text.is_empty() || last != ' ' || FENCES.iter().any(|fence| text.starts_with(fence)) {
            return;
        }
        let marker = text.trim_end().to_owned();
        self.begin_words(&marker, indent);
    }

    /// Begins a line of words with its first word.
    fn begin_words(&mut self, first: &str, indent: usize) {
        let blank = " ".repeat(indent.min(self.width / 2));
        let is_heading = (1..=6).contains(&first.len()) && first.bytes().all(|byte| byte == b'#');
        let digits = first.trim_end_matches(['.', ')']);
        let is_number = digits.len() + 1 == first.len()
            && digits.len() <= 4
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !digits.is_empty();
        let is_item = matches!(first, "-" | "*" | "+") || is_number;
        self.pending.clear();
        self.column = blank.len();
        self.rendered.push_str(&blank);
        self.has_space = false;
        if is_heading {
            self.set_bold(true);
            self.line = Line::Words { prefix: blank };
        } else if is_item || first == ">" {
            self.rendered.push_str(first);
            self.column += first.len();
            self.has_space = true;
            let next = if is_item { " ".repeat(first.len() + 1) } else { "> ".to_owned() };
            self.line = Line::Words { prefix: blank + &next };
        } else {
            self.line = Line::Words { prefix: blank };
            first.clone_into(&mut self.pending);
            self.word();
            self.has_space = true;
        }
    }

    fn begin_verbatim(&mut self) {
        self.line = Line::Verbatim;
        for c in std::mem::take(&mut self.pending).chars() {
            self.put(c);
        }
    }

    fn end_line(&mut self) {
        if matches!(self.line, Line::Undecided) && !self.pending.is_empty() {
            self.decide_short();
        }
        if matches!(self.line, Line::Words { .. }) {
            self.word();
        }
        if self.is_bold {
            self.set_bold(false);
        }
        if self.is_code {
            self.set_code(false);
        }
        self.rendered.push('\n');
        self.line = Line::Undecided;
        self.column = 0;
        self.has_space = false;
    }

    /// Renders a line that ended before its kind was decided: a fence, or a single word.
    fn decide_short(&mut self) {
        let text = self.pending.trim().to_owned();
        let fence = FENCES.into_iter().find(|fence| text.starts_with(fence));
        // The text after the marks. A closing fence has none.
        let info = fence
            .map_or("", |fence| text.trim_start_matches(fence).trim_start_matches(mark(fence)));
        match (self.fence, fence) {
            (None, Some(fence)) if fence == "~~~" || !info.contains('`') => {
                self.fence = Some(fence);
                self.faint();
            }
            (Some(open), Some(fence)) if open == fence && info.is_empty() => {
                self.fence = None;
                self.faint();
            }
            (Some(_), _) => self.begin_verbatim(),
            (None, _) if text.is_empty() => self.pending.clear(),
            (None, _) => {
                let indent = self.pending.len() - self.pending.trim_start_matches(' ').len();
                self.begin_words(&text, indent);
            }
        }
    }

    /// Renders the line of a fence.
    fn faint(&mut self) {
        let line = std::mem::take(&mut self.pending);
        self.rendered.push_str(FAINT.0);
        self.rendered.push_str(line.trim_end());
        self.rendered.push_str(FAINT.1);
    }

    /// Renders the pending word, on the next line if it does not fit.
    fn word(&mut self) {
        let Line::Words { prefix } = &self.line else { return };
        let word = std::mem::take(&mut self.pending);
        if word.is_empty() {
            return;
        }
        let (start, width) = (prefix.width(), self.visible_width(&word));
        let space = usize::from(self.has_space && self.column > 0);
        if self.column + space + width > self.width && self.column > start {
            self.rendered.push('\n');
            self.rendered.push_str(prefix);
            self.column = start;
        } else if space > 0 {
            self.rendered.push(' ');
            self.column += 1;
        }
        self.has_space = false;
        self.styled(&word);
        // The terminal itself breaks a word that is longer than a line.
        self.column += width;
        if self.column > self.width {
            self.column %= self.width;
        }
    }

    /// Renders a word without the marks of its styles.
    fn styled(&mut self, word: &str) {
        for part in parts(word, self.is_bold, self.is_code) {
            match part {
                Part::Bold(is_on) => self.set_bold(is_on),
                Part::Code(is_on) => self.set_code(is_on),
                Part::Text(c) => self.rendered.push(c),
            }
        }
    }

    fn visible_width(&self, word: &str) -> usize {
        let text =
            parts(word, self.is_bold, self.is_code).into_iter().filter_map(|part| match part {
                Part::Text(c) => Some(c),
                Part::Bold(_) | Part::Code(_) => None,
            });
        text.collect::<String>().width()
    }

    fn set_bold(&mut self, is_on: bool) {
        self.is_bold = is_on;
        self.rendered.push_str(if is_on { BOLD.0 } else { BOLD.1 });
    }

    fn set_code(&mut self, is_on: bool) {
        self.is_code = is_on;
        self.rendered.push_str(if is_on { CODE.0 } else { CODE.1 });
    }
}

/// The character of a fence.
fn mark(fence: &str) -> char {
    fence.chars().next().unwrap_or_default()
}

/// A part of a word.
enum Part {
    Bold(bool),
    Code(bool),
    Text(char),
}

/// Splits a word at the marks of styles.
fn parts(word: &str, is_bold: bool, is_code: bool) -> Vec<Part> {
    let (mut is_bold, mut is_code) = (is_bold, is_code);
    let mut parts = Vec::new();
    let mut before = None;
    let mut rest = word.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '`' {
            is_code = !is_code;
            parts.push(Part::Code(is_code));
        } else if c == '*' && !is_code && rest.peek() == Some(&'*') {
            rest.next();
            let opens = !before.is_some_and(char::is_alphanumeric) && rest.peek().is_some();
            let closes = is_bold && before.is_some();
            if closes || (!is_bold && opens) {
                is_bold = !is_bold;
                parts.push(Part::Bold(is_bold));
            } else {
                parts.extend([Part::Text('*'), Part::Text('*')]);
            }
        } else {
            parts.push(Part::Text(c));
        }
        before = Some(c);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renders a text whose pieces have this number of characters, without its styles.
    fn plain(text: &str, width: usize, piece: usize) -> String {
        let shown = styled(text, width, piece);
        [BOLD, CODE, FAINT]
            .iter()
            .fold(shown, |shown, (begin, end)| shown.replace(begin, "").replace(end, ""))
    }

    fn styled(text: &str, width: usize, piece: usize) -> String {
        let mut markdown = Markdown::new(width);
        let characters: Vec<char> = text.chars().collect();
        let pieces = characters.chunks(piece).map(|piece| piece.iter().collect::<String>());
        let mut shown: String = pieces.map(|piece| markdown.push(&piece)).collect();
        shown.push_str(&markdown.finish());
        shown
    }

    const TEXT: &str = "# A heading\n\nThe service stores **every block** of a conversation in `Postgres`, \
        and a client that reconnects receives exactly the events that it missed.\n\n\
        - An item that is long enough to be wrapped at sixty columns, with a hanging indent.\n\
        12. A number\n\n```sh\ncargo build --release --locked --bin twostep --features a,b,c,d,e,f\n```\n\
        | a | b |\n|---|---|\n> A quotation that is also long enough to be wrapped at sixty columns, twice.\n";

    #[test]
    fn words_are_wrapped_at_the_width_of_the_terminal() {
        let expected = "A heading\n\n\
            The service stores every block of a conversation in\n\
            Postgres, and a client that reconnects receives exactly the\n\
            events that it missed.\n\n\
            - An item that is long enough to be wrapped at sixty\n  columns, with a hanging indent.\n\
            12. A number\n\n\
            ```sh\ncargo build --release --locked --bin twostep --features a,b,c,d,e,f\n```\n\
            | a | b |\n|---|---|\n\
            > A quotation that is also long enough to be wrapped at\n> sixty columns, twice.\n";
        for piece in [1, 2, 3, 7, 1000] {
            assert_eq!(plain(TEXT, 60, piece), expected, "{piece}");
        }
        let longest = plain(TEXT, 120, 5).lines().map(UnicodeWidthStr::width).max();
        assert!(longest.is_some_and(|longest| (80..=120).contains(&longest)), "{longest:?}");
    }

    #[test]
    fn marks_of_styles_are_replaced_by_styles() {
        assert_eq!(
            styled("**a b** `c d`", 60, 1),
            "\u{1b}[1ma b\u{1b}[22m \u{1b}[36mc d\u{1b}[39m\n"
        );
        // A style ends with its line, and other asterisks stay.
        assert_eq!(styled("**a\nb", 60, 1), "\u{1b}[1ma\u{1b}[22m\nb\n");
        assert_eq!(styled("2**3 ** *a*", 60, 1), "2**3 ** *a*\n");
        assert_eq!(styled("`a**b`", 60, 1), "\u{1b}[36ma**b\u{1b}[39m\n");
        assert_eq!(styled("# ", 60, 1), "\u{1b}[1m\u{1b}[22m\n");
    }

    #[test]
    fn no_character_of_other_text_is_lost() {
        for text in ["a\n", "  a b\n", "x", "-\n", "``` a\n", "    code\n", "\n\na\n", "a-b *c*\n"]
        {
            for piece in [1, 100] {
                assert_eq!(plain(text, 60, piece).trim_end(), text.trim_end(), "{text:?}");
            }
        }
        assert_eq!(styled("", 60, 1), "");
    }

    #[test]
    fn only_a_fence_without_a_text_ends_a_code_block() {
        let is_wrapped = |text: &str| plain(text, 20, 3).lines().count() > text.lines().count();
        let long = "one two three four five six\n";
        assert!(is_wrapped(long));
        for open in ["```\n", "~~~ a`b`\n```\n", "```\n```sh\n", "````\n~~~\n"] {
            assert!(!is_wrapped(&format!("{open}{long}")), "{open}");
            let close = if open.starts_with('~') { "~~~\n" } else { "```\n" };
            assert!(is_wrapped(&format!("{open}{close}{long}")), "{open}");
        }
        assert!(is_wrapped(&format!("```one```\n{long}")));

        let mut interrupted = Markdown::new(20);
        interrupted.push("```\none");
        assert_eq!(interrupted.interrupt(), "\n");
        assert_eq!(interrupted.push(long), long);
        interrupted.push("```\n");
        assert_ne!(interrupted.push(long), long);
    }

    #[test]
    fn the_beginning_of_a_late_word_can_be_shown() {
        let mut markdown = Markdown::new(60);
        assert_eq!((markdown.push("Wel"), markdown.flush()), (String::new(), "Wel".to_owned()));
        assert_eq!(markdown.push("l, well") + &markdown.flush(), "l, well");
        assert_eq!(markdown.finish(), "\n");
        assert_eq!((markdown.push("``"), markdown.flush()), (String::new(), String::new()));
        assert_eq!(markdown.push("`\n"), "\u{1b}[2m```\u{1b}[22m\n");
    }

    #[test]
    fn long_words_and_wide_characters_do_not_lengthen_lines() {
        let url = format!("see https://example.com/{} now", "a".repeat(70));
        assert_eq!(plain(&url, 60, 9), url.replacen(' ', "\n", 1) + "\n");
        let wide = "漢".repeat(50);
        assert!(plain(&wide, 60, 4).lines().all(|line| line.width() <= 60));
    }
}
