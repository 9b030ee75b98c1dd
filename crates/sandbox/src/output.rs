//! The output of a command, read to its end and kept up to a limit.

use std::borrow::Cow;

/// Maximum number of bytes to keep of both streams together.
const MAX_KEPT: usize = 1024 * 1024;

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
    kept: Vec<u8>,
    /// The number of bytes that were not kept.
    pub dropped: u64,
}

/// The origin of a piece of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Stdout,
    Stderr,
}

impl Output {
    pub(super) fn take(&mut self, source: Source, bytes: &[u8]) {
        let room = MAX_KEPT - self.stdout.kept.len() - self.stderr.kept.len();
        let (kept, dropped) = bytes.split_at(room.min(bytes.len()));
        let stream = match source {
            Source::Stdout => &mut self.stdout,
            Source::Stderr => &mut self.stderr,
        };
        stream.kept.extend_from_slice(kept);
        stream.dropped += dropped.len() as u64;
    }
}

impl Stream {
    /// The kept output as text. Invalid UTF-8 and NUL, which the database does not accept, become
    /// U+FFFD.
    pub fn text(&self) -> Cow<'_, str> {
        let text = String::from_utf8_lossy(&self.kept);
        if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_share_the_limit_and_the_rest_is_counted() {
        let mut output = Output::default();
        output.take(Source::Stdout, &vec![b'a'; MAX_KEPT - 3]);
        output.take(Source::Stderr, b"hello");
        output.take(Source::Stdout, b"more");
        assert_eq!(output.stdout.text().len(), MAX_KEPT - 3);
        assert_eq!(output.stdout.dropped, 4);
        assert_eq!(output.stderr, Stream { kept: b"hel".to_vec(), dropped: 2 });
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let mut output = Output::default();
        output.take(Source::Stdout, b"a\0b\xff\xfec");
        assert_eq!(output.stdout.text(), "a\u{fffd}b\u{fffd}\u{fffd}c");
    }
}
