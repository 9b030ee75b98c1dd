//! The writer of the Markdown text. It only appends.

use url::Url;

/// Maximum length of the text in bytes.
const MAX_TEXT: usize = 5 * 1024 * 1024;
/// Maximum length of a link's URL in bytes; the text of a longer link appears without the URL.
const MAX_ADDRESS: usize = 2000;
/// Maximum indentation of lists and of quotes. Deeper levels appear at the deepest one.
const MAX_LISTS: usize = 6;
const MAX_QUOTES: usize = 4;
/// Minimum length in bytes of a main part that replaces the whole page.
const MIN_MAIN: usize = 200;

/// The Markdown text so far, and the elements that are open.
#[derive(Debug, Default)]
pub(super) struct Writer {
    out: String,
    /// Line breaks to write before the next word.
    gap: usize,
    /// A space is due before the next word.
    has_blank: bool,
    /// The prefix of the next line only, such as `- ` or `## `, after quotes and indentation.
    marker: String,
    quotes: usize,
    /// The open lists, outermost first; the number of the next item for a numbered list.
    lists: Vec<Option<u32>>,
    is_preformatted: bool,
    is_code: bool,
    link: Option<Link>,
    table: Table,
    /// The byte offsets of the main part; the end is absent while it is open.
    main: Option<(usize, Option<usize>)>,
}

/// The open link. Its `[` is written with its first word, because many links have no text.
#[derive(Debug)]
struct Link {
    href: String,
    is_shown: bool,
}

/// The open table. A nested table ends the current row of the outer one.
#[derive(Debug, Default)]
struct Table {
    has_row: bool,
    cells: usize,
}

impl Writer {
    pub(super) fn is_full(&self) -> bool {
        self.out.len() > MAX_TEXT
    }

    /// Returns the main part if it is long enough, else the whole text.
    pub(super) fn finish(mut self) -> String {
        if self.is_preformatted {
            self.end_preformatted();
        }
        let main = self.main.and_then(|(from, to)| {
            let main = self.out.get(from..to.unwrap_or(self.out.len()))?.trim();
            (main.len() >= MIN_MAIN).then(|| main.to_owned())
        });
        main.unwrap_or_else(|| self.out.trim().to_owned())
    }

    pub(super) fn begin_main(&mut self) {
        self.gap(2);
        self.main.get_or_insert((self.out.len(), None));
    }

    pub(super) fn end_main(&mut self) {
        if let Some((_, to @ None)) = &mut self.main {
            *to = Some(self.out.len());
        }
        self.gap(2);
    }

    /// Writes text of the page. Outside preformatted text a run of whitespace becomes one space.
    pub(super) fn text(&mut self, text: &str) {
        if self.is_preformatted {
            self.out.push_str(text);
            return;
        }
        self.has_blank |= text.starts_with(is_blank);
        let mut words = text.split(is_blank).filter(|word| !word.is_empty()).peekable();
        if words.peek().is_none() {
            return;
        }
        for word in words {
            self.push(word);
            self.has_blank = true;
        }
        self.has_blank = text.ends_with(is_blank);
    }

    /// Writes one word or punctuation mark unchanged, after the due line breaks or space.
    pub(super) fn push(&mut self, word: &str) {
        if self.gap > 0 {
            self.begin_line();
        } else if self.has_blank && !self.out.is_empty() {
            self.out.push(' ');
        }
        self.has_blank = false;
        if let Some(link) = self.link.as_mut().filter(|link| !link.is_shown) {
            link.is_shown = true;
            self.out.push('[');
        }
        self.out.push_str(word);
    }

    /// Requests at least `lines` line breaks before the next word.
    pub(super) fn gap(&mut self, lines: usize) {
        if self.is_preformatted {
            let is_new = self.out.ends_with('\n');
            self.out.push_str(if is_new { "" } else { "\n" });
        } else if self.table.cells > 0 {
            // A table row is one line.
            self.has_blank = true;
        } else {
            self.gap = self.gap.max(lines);
        }
    }

    fn begin_line(&mut self) {
        if !self.out.is_empty() {
            self.out.extend(std::iter::repeat_n('\n', self.gap));
        }
        self.gap = 0;
        for _ in 0..self.quotes.min(MAX_QUOTES) {
            self.out.push_str("> ");
        }
        let is_item = usize::from(!self.marker.is_empty());
        for _ in is_item..self.lists.len().min(MAX_LISTS) {
            self.out.push_str("  ");
        }
        self.out.push_str(&std::mem::take(&mut self.marker));
    }

    pub(super) fn heading(&mut self, level: usize) {
        self.gap(2);
        if self.table.cells == 0 && !self.marker.ends_with("# ") {
            self.marker.push_str(&"#".repeat(level));
            self.marker.push(' ');
        }
    }

    pub(super) fn end_heading(&mut self) {
        self.marker.clear();
        self.gap(2);
    }

    pub(super) fn rule(&mut self) {
        self.gap(2);
        self.push("---");
        self.gap(2);
    }

    pub(super) fn begin_quote(&mut self) {
        self.gap(2);
        self.quotes += 1;
    }

    pub(super) fn end_quote(&mut self) {
        self.gap(2);
        self.quotes = self.quotes.saturating_sub(1);
    }

    pub(super) fn begin_code(&mut self) {
        if !self.is_preformatted && !self.is_code {
            self.push("`");
            self.is_code = true;
        }
    }

    pub(super) fn end_code(&mut self) {
        if self.is_code {
            self.out.push('`');
            self.is_code = false;
        }
    }

    pub(super) fn begin_preformatted(&mut self) {
        if !self.is_preformatted {
            self.gap(2);
            self.push("```\n");
            self.is_preformatted = true;
        }
    }

    pub(super) fn end_preformatted(&mut self) {
        if self.is_preformatted {
            let end = if self.out.ends_with('\n') { "```" } else { "\n```" };
            self.out.push_str(end);
            self.is_preformatted = false;
            self.gap(2);
        }
    }

    pub(super) fn begin_list(&mut self, is_numbered: bool) {
        self.gap(if self.lists.is_empty() { 2 } else { 1 });
        self.lists.push(is_numbered.then_some(1));
    }

    pub(super) fn end_list(&mut self) {
        self.marker.clear();
        self.lists.pop();
        self.gap(if self.lists.is_empty() { 2 } else { 1 });
    }

    pub(super) fn item(&mut self) {
        self.gap(1);
        if self.table.cells > 0 {
            return;
        }
        self.marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            Some(None) | None => "- ".to_owned(),
        };
    }

    pub(super) fn end_item(&mut self) {
        self.marker.clear();
        self.gap(1);
    }

    /// Opens a link, unless it leads to a part of the same page or has another scheme than HTTP.
    pub(super) fn begin_link(&mut self, href: Option<String>) {
        let href = href.filter(|href| is_page_link(href) && !self.is_preformatted);
        if self.link.is_none() {
            self.link = href.map(|href| Link { href, is_shown: false });
        }
    }

    pub(super) fn end_link(&mut self, base: &Url) {
        let Some(Link { href, .. }) = self.link.take().filter(|link| link.is_shown) else { return };
        let address = base.join(href.trim()).ok().filter(|url| url.as_str().len() <= MAX_ADDRESS);
        self.out.push(']');
        if let Some(address) = address {
            self.out.extend(["(", address.as_str(), ")"]);
        }
    }

    pub(super) fn begin_table(&mut self) {
        self.end_row();
        self.table = Table::default();
        self.gap(2);
    }

    pub(super) fn end_table(&mut self) {
        self.end_row();
        self.table = Table::default();
        self.gap(2);
    }

    pub(super) fn begin_row(&mut self) {
        self.end_row();
    }

    pub(super) fn begin_cell(&mut self) {
        if self.table.cells == 0 {
            self.gap(1);
            self.push("|");
        } else {
            self.has_blank = true;
            self.push("|");
        }
        self.has_blank = true;
        self.table.cells += 1;
    }

    pub(super) fn end_row(&mut self) {
        let cells = std::mem::take(&mut self.table.cells);
        if cells == 0 {
            return;
        }
        self.out.push_str(" |");
        self.gap(1);
        if !self.table.has_row {
            self.table.has_row = true;
            self.push("|");
            self.out.push_str(&" --- |".repeat(cells));
            self.gap(1);
        }
    }
}

/// True for ASCII whitespace as HTML defines it. A no-break space is an ordinary character.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

/// True if the link can lead to another page: relative, `http` or `https`.
fn is_page_link(href: &str) -> bool {
    let href = href.trim_start();
    if href.is_empty() || href.starts_with('#') {
        return false;
    }
    let scheme = href.split(['/', '?', '#']).next().and_then(|first| first.split_once(':'));
    scheme.is_none_or(|(scheme, _)| {
        ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
    })
}
