//! HTML as Markdown, in one pass over its tags.
//!
//! No tree is built of it. A page of a million open tags, which would be a million levels deep,
//! costs what any page of its length costs, and nothing here calls itself.

mod tags;
#[cfg(test)]
mod tests;
mod writer;

use html5gum::{DefaultEmitter, Token, Tokenizer};
use reqwest::Url;

use tags::{Effect, effect, hides};
use writer::Writer;

/// The longest title that is kept, in bytes.
const MAX_TITLE: usize = 500;

/// What a page says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Said {
    /// Its title, if it has one.
    pub(super) title: String,
    /// The rest, as Markdown.
    pub(super) text: String,
}

/// What a page says: its main part where it marks one, else all but what is there to get around in
/// it. Links are made whole by the page's own address.
pub(super) fn markdown(html: &str, base: &Url) -> Said {
    let mut reader = Reader::new(base);
    for Ok(token) in tokens(html) {
        if reader.writer.is_full() {
            break;
        }
        reader.take(&token);
    }
    Said { title: reader.title, text: reader.writer.finish() }
}

/// The text of a piece of HTML, in one line.
pub(super) fn plain(html: &str) -> String {
    let mut text = String::new();
    for Ok(token) in tokens(html) {
        if let Token::String(piece) = token {
            text.push_str(&String::from_utf8_lossy(&piece));
        }
    }
    one_line(&text)
}

/// A text without line ends, and without more than one blank between two words.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

fn tokens(html: &str) -> Tokenizer<html5gum::StringReader<'_>> {
    let mut emitter = DefaultEmitter::default();
    // Without it a script is read as if it were a text with tags.
    emitter.naively_switch_states(true);
    Tokenizer::new_with_emitter(html, emitter)
}

/// How far a page is read.
struct Reader<'a> {
    base: &'a Url,
    writer: Writer,
    title: String,
    is_in_title: bool,
    /// An element that is left out, and how many of its name are open.
    hidden: Option<(Vec<u8>, u32)>,
}

impl<'a> Reader<'a> {
    fn new(base: &'a Url) -> Self {
        let (writer, title) = (Writer::default(), String::new());
        Self { base, writer, title, is_in_title: false, hidden: None }
    }

    fn take(&mut self, token: &Token) {
        match token {
            Token::StartTag(tag) => {
                let attribute = |name: &str| {
                    let value = tag.attributes.get(name.as_bytes())?;
                    Some(String::from_utf8_lossy(value).into_owned())
                };
                if !self.is_hidden_after_start(&tag.name, tag.self_closing) {
                    self.start(effect(&tag.name), attribute);
                }
            }
            Token::EndTag(tag) => {
                if !self.is_hidden_after_end(&tag.name) {
                    self.end(effect(&tag.name));
                }
            }
            Token::String(text) => self.text(&String::from_utf8_lossy(text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }

    fn is_hidden_after_start(&mut self, name: &[u8], is_closed: bool) -> bool {
        match &mut self.hidden {
            // Whoever forgot to close a menu has not put the page into it.
            Some(_) if effect(name) == Effect::Main => {
                self.hidden = None;
                false
            }
            Some((hidden, open)) => {
                *open = open.saturating_add(u32::from(hidden.as_slice() == name));
                true
            }
            None if hides(name) => {
                if !is_closed {
                    self.hidden = Some((name.to_owned(), 1));
                }
                true
            }
            None => false,
        }
    }

    fn is_hidden_after_end(&mut self, name: &[u8]) -> bool {
        let Some((hidden, open)) = &mut self.hidden else { return false };
        if hidden.as_slice() == name {
            *open -= 1;
            if *open == 0 {
                self.hidden = None;
            }
        }
        true
    }

    fn start(&mut self, effect: Effect, attribute: impl Fn(&str) -> Option<String>) {
        let writer = &mut self.writer;
        match effect {
            Effect::Title => self.is_in_title = true,
            Effect::Main => writer.begin_main(),
            Effect::Block => writer.gap(2),
            Effect::Line => writer.gap(1),
            Effect::Heading(level) => writer.heading(level),
            Effect::Rule => writer.rule(),
            Effect::Quote => writer.begin_quote(),
            Effect::Code => writer.begin_code(),
            Effect::Preformatted => writer.begin_preformatted(),
            Effect::List { is_numbered } => writer.begin_list(is_numbered),
            Effect::Item => writer.item(),
            Effect::Link => writer.begin_link(attribute("href")),
            Effect::Image => writer.text(&attribute("alt").unwrap_or_default()),
            Effect::Table => writer.begin_table(),
            Effect::Row => writer.begin_row(),
            Effect::Cell => writer.begin_cell(),
            Effect::None => {}
        }
    }

    fn end(&mut self, effect: Effect) {
        let writer = &mut self.writer;
        match effect {
            Effect::Title => self.is_in_title = false,
            Effect::Main => writer.end_main(),
            Effect::Block => writer.gap(2),
            Effect::Line => writer.gap(1),
            Effect::Heading(_) => writer.end_heading(),
            Effect::Quote => writer.end_quote(),
            Effect::Code => writer.end_code(),
            Effect::Preformatted => writer.end_preformatted(),
            Effect::List { .. } => writer.end_list(),
            Effect::Item => writer.end_item(),
            Effect::Link => writer.end_link(self.base),
            Effect::Table => writer.end_table(),
            Effect::Row => writer.end_row(),
            Effect::Rule | Effect::Image | Effect::Cell | Effect::None => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.hidden.is_some() {
            return;
        }
        if !self.is_in_title {
            self.writer.text(text);
        } else if self.title.is_empty() {
            self.title = one_line(text);
            self.title.truncate(self.title.floor_char_boundary(MAX_TITLE));
        }
    }
}
