//! Conversion of HTML pages to Markdown, in one pass over the tags.
//!
//! The converter builds no tree and does not recurse: its time and memory are linear in the length
//! of the page. A page with a million unclosed tags costs as much as any page of that length.

mod tags;
#[cfg(test)]
mod tests;
mod writer;

use html5gum::{DefaultEmitter, Token, Tokenizer};
use url::Url;

use tags::{Effect, effect, is_omitted};
use writer::Writer;

/// The longest title that is kept, in bytes.
const MAX_TITLE: usize = 500;

/// A page after its conversion.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Markdown {
    /// The text of the `title` element; empty without one.
    pub title: String,
    /// The content of the page as Markdown.
    pub text: String,
}

/// Converts a page to Markdown: its `main` element if that has enough text, else the whole page
/// without navigation, forms and scripts. Relative links are resolved against `base`.
pub fn convert(html: &str, base: &Url) -> Markdown {
    let mut converter = Converter::new(base);
    for Ok(token) in tokens(html) {
        if converter.writer.is_full() {
            break;
        }
        converter.token(&token);
    }
    Markdown { title: converter.title, text: converter.writer.finish() }
}

/// Returns the text of an HTML fragment on one line, without its tags.
pub fn plain_text(html: &str) -> String {
    let mut text = String::new();
    for Ok(token) in tokens(html) {
        if let Token::String(piece) = token {
            text.push_str(&String::from_utf8_lossy(&piece));
        }
    }
    collapse_whitespace(&text)
}

/// Replaces each run of whitespace by one space, and trims both ends.
pub fn collapse_whitespace(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

fn tokens(html: &str) -> Tokenizer<html5gum::StringReader<'_>> {
    let mut emitter = DefaultEmitter::default();
    // Otherwise the tokenizer reads the content of a script as text with tags.
    emitter.naively_switch_states(true);
    Tokenizer::new_with_emitter(html, emitter)
}

/// The state of a conversion.
struct Converter<'a> {
    base: &'a Url,
    writer: Writer,
    title: String,
    is_in_title: bool,
    /// The omitted element that is open, and the number of open elements with its name.
    hidden: Option<(Vec<u8>, u32)>,
}

impl<'a> Converter<'a> {
    fn new(base: &'a Url) -> Self {
        let (writer, title) = (Writer::default(), String::new());
        Self { base, writer, title, is_in_title: false, hidden: None }
    }

    fn token(&mut self, token: &Token) {
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
            // An unclosed menu does not hide the main part of the page.
            Some(_) if effect(name) == Effect::Main => {
                self.hidden = None;
                false
            }
            Some((hidden, open)) => {
                *open = open.saturating_add(u32::from(hidden.as_slice() == name));
                true
            }
            None if is_omitted(name) => {
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
            self.title = collapse_whitespace(text);
            self.title.truncate(self.title.floor_char_boundary(MAX_TITLE));
        }
    }
}
