//! The output of a command, read to its end and kept up to a limit: its beginning and its end.

use std::collections::VecDeque;

/// Maximum number of bytes to keep of the beginning and of the end of each stream.
const MAX_HALF: usize = 512 * 1024;

/// The output of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The standard output.
    pub stdout: Stream,
    /// The standard error.
    pub stderr: Stream,
}

/// One of the two streams.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stream {
    head: Vec<u8>,
    /// The last bytes after the head.
    tail: VecDeque<u8>,
    /// The number of bytes between head and tail that were not kept.
    dropped: u64,
}

/// A stream as text, without its middle if it is too long.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Excerpt {
    /// The beginning, or the complete text.
    pub head: String,
    /// The number of bytes of the stream between head and tail.
    pub omitted: u64,
    /// The end; empty if nothing was omitted.
    pub tail: String,
}

/// The origin of a piece of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Stdout,
    Stderr,
}

impl Output {
    pub(super) fn take(&mut self, source: Source, bytes: &[u8]) {
        match source {
            Source::Stdout => self.stdout.take(bytes),
            Source::Stderr => self.stderr.take(bytes),
        }
    }
}

impl Stream {
    fn take(&mut self, bytes: &[u8]) {
        let room = MAX_HALF - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(MAX_HALF);
        self.tail.drain(..excess);
        self.dropped += excess as u64;
    }

    /// Reports whether a part of the output was not kept.
    pub const fn is_truncated(&self) -> bool {
        self.dropped > 0
    }

    /// The output as text. Invalid UTF-8 and NUL, which the database does not accept, become
    /// U+FFFD. A line in brackets states the number of bytes that were not kept, at their place.
    pub fn text(&self) -> String {
        self.excerpt(usize::MAX).text()
    }

    /// The output as text of at most `max` bytes: all of it, or its beginning and its end. Invalid
    /// UTF-8 and NUL become U+FFFD.
    pub fn excerpt(&self, max: usize) -> Excerpt {
        let (head, tail) = if self.is_truncated() {
            let tail: Vec<u8> = self.tail.iter().copied().collect();
            (beginning(&self.head, max / 2), ending(&tail, max / 2))
        } else {
            let whole: Vec<u8> = self.head.iter().chain(&self.tail).copied().collect();
            let text = readable(&whole);
            if text.len() <= max {
                return Excerpt { head: text, omitted: 0, tail: String::new() };
            }
            (beginning(&whole, max / 2), ending(&whole, max / 2))
        };
        let total = (self.head.len() + self.tail.len()) as u64 + self.dropped;
        let omitted = total - head.length as u64 - tail.length as u64;
        Excerpt { head: head.text, omitted, tail: tail.text }
    }
}

impl Excerpt {
    /// The text, with a line in brackets in place of the omitted bytes.
    pub fn text(&self) -> String {
        let Self { head, omitted, tail } = self;
        if *omitted == 0 {
            return head.clone();
        }
        format!("{head}\n[{omitted} bytes omitted]\n{tail}")
    }
}

/// A part of a stream as text.
struct Part {
    text: String,
    /// The number of bytes of the stream that the text stands for.
    length: usize,
}

/// A character of the text and the number of bytes that it stands for.
type Unit = (char, usize);

fn units(bytes: &[u8]) -> impl Iterator<Item = Unit> {
    bytes.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid().chars().map(|c| match c {
            '\0' => (char::REPLACEMENT_CHARACTER, 1),
            c => (c, c.len_utf8()),
        });
        let invalid = chunk.invalid().len();
        valid.chain((invalid > 0).then_some((char::REPLACEMENT_CHARACTER, invalid)))
    })
}

/// The longest beginning with a text of at most `max` bytes. A character of which only the first
/// bytes are there is left out.
fn beginning(bytes: &[u8], max: usize) -> Part {
    let whole = bytes.len() - incomplete_end(bytes);
    part(units(bytes.get(..whole).unwrap_or(bytes)), max)
}

/// The longest end with a text of at most `max` bytes. A character of which only the last bytes are
/// there is left out.
fn ending(bytes: &[u8], max: usize) -> Part {
    // A text of `max` bytes stands for at most that many bytes, plus those of one character.
    let near = bytes.len().saturating_sub(max.saturating_add(3));
    let bytes = bytes.get(near..).unwrap_or(bytes);
    let continued = bytes.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
    let units: Vec<Unit> = units(bytes.get(continued..).unwrap_or(bytes)).collect();
    let Part { text, length } = part(units.into_iter().rev(), max);
    Part { text: text.chars().rev().collect(), length }
}

fn part(units: impl Iterator<Item = Unit>, max: usize) -> Part {
    let mut part = Part { text: String::new(), length: 0 };
    for (c, length) in units {
        if part.text.len() + c.len_utf8() > max {
            break;
        }
        part.text.push(c);
        part.length += length;
    }
    part
}

fn readable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

const fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The number of bytes at the end that begin a character and do not complete it.
fn incomplete_end(bytes: &[u8]) -> usize {
    let last = bytes.iter().rev().take(3).zip(1..).find(|(byte, _)| !is_continuation(**byte));
    let Some((lead, there)) = last else { return 0 };
    let needed = match lead {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    };
    if there < needed { there } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(bytes: &[u8]) -> Stream {
        let mut output = Output::default();
        // Pieces of a length that divides no limit.
        bytes.chunks(1009).for_each(|piece| output.take(Source::Stdout, piece));
        output.stdout
    }

    #[test]
    fn the_beginning_and_the_end_of_each_stream_are_kept_and_the_middle_is_counted() {
        let whole = [b'a'].repeat(2 * MAX_HALF);
        assert_eq!(stream(&whole).text().as_bytes(), whole);
        let long = [[b'a'].repeat(MAX_HALF), b"12345".to_vec(), [b'z'].repeat(MAX_HALF)].concat();
        let expected =
            format!("{}\n[5 bytes omitted]\n{}", "a".repeat(MAX_HALF), "z".repeat(MAX_HALF));
        assert!(stream(&long).text() == expected);

        let mut output = Output::default();
        output.take(Source::Stdout, &long);
        output.take(Source::Stderr, b"hello");
        assert_eq!(output.stderr.text(), "hello", "a long stream takes nothing from the other");
    }

    #[test]
    fn an_excerpt_counts_every_byte_that_it_leaves_out() {
        let kept = |head: &str, omitted, tail: &str| Excerpt {
            head: head.to_owned(),
            omitted,
            tail: tail.to_owned(),
        };
        for (bytes, max, expected) in [
            (b"0123456789".as_slice(), 10, kept("0123456789", 0, "")),
            (b"0123456789", 9, kept("0123", 2, "6789")),
            ("aäöz".as_bytes(), 4, kept("a", 4, "z")),
            (b"\xff\xff\xff\xff", 6, kept("\u{fffd}", 2, "\u{fffd}")),
            (b"a\0b\0c", 8, kept("a\u{fffd}", 1, "\u{fffd}c")),
        ] {
            assert_eq!(stream(bytes).excerpt(max), expected, "{bytes:?} {max}");
        }
    }

    #[test]
    fn a_character_that_the_limit_divides_is_left_out_and_counted() {
        let long = [b"a".to_vec(), "€".repeat(MAX_HALF).into_bytes()].concat();
        let Excerpt { head, omitted, tail } = stream(&long).excerpt(usize::MAX);
        assert!(head.starts_with("a€") && head.ends_with('€') && tail.ends_with('€'));
        assert!(!head.contains('\u{fffd}') && !tail.contains('\u{fffd}'));
        assert_eq!(head.len() as u64 + omitted + tail.len() as u64, long.len() as u64);
    }

    #[test]
    fn invalid_utf8_and_nul_are_replaced() {
        assert_eq!(stream(b"a\0b\xff\xfec").text(), "a\u{fffd}b\u{fffd}\u{fffd}c");
    }
}
