//! Reasoning that a server sends as the beginning of the text, between `<think>` and `</think>`.

use std::mem::take;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of the content of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Thinking(String),
}

/// Separates the reasoning from the answer while the text arrives.
#[derive(Debug, Default)]
pub(super) struct ThinkTags {
    place: Place,
    /// Text that is not assigned yet, because it may be a part of a tag, or space before the answer.
    pending: String,
}

#[derive(Debug, Default, Clone, Copy)]
enum Place {
    #[default]
    Start,
    Inside,
    /// Between the reasoning and the answer.
    Behind,
    Answer,
}

impl ThinkTags {
    /// Adds text and returns the pieces that are complete.
    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        self.pending.push_str(text);
        let mut pieces = Vec::new();
        while let Some(piece) = self.next() {
            pieces.extend(Some(piece).filter(|piece| !piece.text().is_empty()));
        }
        pieces
    }

    /// Returns the rest at the end of the reply.
    pub(super) fn finish(&mut self) -> Option<Piece> {
        let rest = take(&mut self.pending);
        let piece = match self.place {
            Place::Inside => Piece::Thinking(rest),
            Place::Start | Place::Behind | Place::Answer => Piece::Text(rest),
        };
        Some(piece).filter(|piece| !piece.text().is_empty())
    }

    /// The next piece, perhaps empty; `None` if more text is needed.
    fn next(&mut self) -> Option<Piece> {
        match self.place {
            Place::Start => {
                let start = self.pending.trim_start();
                if let Some(rest) = start.strip_prefix(OPEN) {
                    self.pending = rest.to_owned();
                    self.place = Place::Inside;
                } else if OPEN.starts_with(start) {
                    return None;
                } else {
                    self.place = Place::Answer;
                }
                Some(Piece::Text(String::new()))
            }
            Place::Inside => {
                if let Some((thinking, rest)) = self.pending.split_once(CLOSE) {
                    let (thinking, rest) = (thinking.to_owned(), rest.to_owned());
                    self.pending = rest;
                    self.place = Place::Behind;
                    return Some(Piece::Thinking(thinking));
                }
                let end = self.pending.len() - begun(&self.pending, CLOSE);
                let rest = self.pending.split_off(end);
                let thinking = std::mem::replace(&mut self.pending, rest);
                (!thinking.is_empty()).then_some(Piece::Thinking(thinking))
            }
            Place::Behind => {
                let answer = self.pending.trim_start();
                if answer.is_empty() {
                    return None;
                }
                self.pending = answer.to_owned();
                self.place = Place::Answer;
                Some(Piece::Text(String::new()))
            }
            Place::Answer => {
                let text = take(&mut self.pending);
                (!text.is_empty()).then_some(Piece::Text(text))
            }
        }
    }
}

impl Piece {
    fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Thinking(text) => text,
        }
    }
}

/// The length of the end of the text that is the beginning of the tag.
fn begun(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|length| text.ends_with(&tag[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reasoning and the answer of a text that arrives in pieces of this many characters.
    fn read(text: &str, size: usize) -> (String, String) {
        let mut tags = ThinkTags::default();
        let characters: Vec<char> = text.chars().collect();
        let pieces = characters.chunks(size).map(|piece| piece.iter().collect::<String>());
        let mut pieces: Vec<Piece> = pieces.flat_map(|piece| tags.push(&piece)).collect();
        pieces.extend(tags.finish());
        let (mut thinking, mut answer) = (String::new(), String::new());
        for piece in pieces {
            match piece {
                Piece::Text(text) => answer.push_str(&text),
                Piece::Thinking(text) => thinking.push_str(&text),
            }
        }
        (thinking, answer)
    }

    #[test]
    fn only_a_tag_at_the_beginning_begins_reasoning() {
        for (text, thinking, answer) in [
            ("Hi", "", "Hi"),
            ("", "", ""),
            ("\n<think>\nHm < 3 </thin\n</think>\n\nSo é.\n", "\nHm < 3 </thin\n", "So é.\n"),
            ("Use <think>x</think>", "", "Use <think>x</think>"),
            ("<thin", "", "<thin"),
            ("<think>Hm</th", "Hm</th", ""),
            ("<think></think>a</think>", "", "a</think>"),
        ] {
            for size in 1..=text.chars().count().max(1) {
                let wanted = (thinking.to_owned(), answer.to_owned());
                assert_eq!(read(text, size), wanted, "{text:?} in pieces of {size}");
            }
        }
    }
}
