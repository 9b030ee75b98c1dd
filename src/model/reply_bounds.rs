//! Bounds for the bytes of a reply. The decoder of server-sent events buffers an incomplete event, so
//! without a bound its memory would be that of the longest line that a server sends.

use std::io;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};

/// The maximum number of bytes of one event. Results of server tools, such as a fetched document,
/// are one event.
const MAX_EVENT: usize = 16 * 1024 * 1024;
/// The maximum number of bytes of a stream, including padding and pings.
const MAX_BODY: usize = 128 * 1024 * 1024;

/// A reply that exceeds a bound.
#[derive(Debug, thiserror::Error)]
#[error("the reply exceeds a bound of {0} bytes")]
struct BoundExceeded(usize);

/// The bytes of a reply that have arrived.
#[derive(Debug)]
struct ReplyBounds {
    max_event: usize,
    max_body: usize,
    event: usize,
    body: usize,
    is_line_empty: bool,
    is_after_cr: bool,
}

impl ReplyBounds {
    const fn new(max_event: usize, max_body: usize) -> Self {
        let (event, body) = (0, 0);
        Self { max_event, max_body, event, body, is_line_empty: true, is_after_cr: false }
    }

    /// Counts bytes. An empty line ends an event.
    fn count(&mut self, bytes: &[u8]) -> Result<(), BoundExceeded> {
        self.body += bytes.len();
        if self.body > self.max_body {
            return Err(BoundExceeded(self.max_body));
        }
        for byte in bytes {
            self.event += 1;
            // A carriage return and a line feed are one end of a line.
            let continues_end = *byte == b'\n' && self.is_after_cr;
            self.is_after_cr = *byte == b'\r';
            if continues_end {
                continue;
            }
            let is_end = matches!(byte, b'\n' | b'\r');
            if is_end && self.is_line_empty {
                self.event = 0;
            }
            self.is_line_empty = is_end;
            if self.event > self.max_event {
                return Err(BoundExceeded(self.max_event));
            }
        }
        Ok(())
    }
}

/// Ends a body with an error where it exceeds a bound.
pub(super) fn bounded(
    body: impl Stream<Item = reqwest::Result<Bytes>>,
) -> impl Stream<Item = io::Result<Bytes>> {
    let mut bounds = ReplyBounds::new(MAX_EVENT, MAX_BODY);
    body.map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        bounds.count(&chunk).map_err(io::Error::other)?;
        Ok(chunk)
    })
}

/// The bound that the reply exceeded, if that is the cause of this error.
pub(super) fn exceeded_bound(error: &sse_stream::Error) -> Option<usize> {
    let sse_stream::Error::Body(body) = error else { return None };
    let inner = body.downcast_ref::<io::Error>()?.get_ref()?;
    inner.downcast_ref().map(|BoundExceeded(bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound that some texts exceed, whose events may have 10 bytes and whose sum 100.
    fn exceeded(texts: &[&str]) -> Option<usize> {
        let mut bounds = ReplyBounds::new(10, 100);
        let exceeded = |text: &&str| bounds.count(text.as_bytes()).err();
        texts.iter().find_map(exceeded).map(|BoundExceeded(bytes)| bytes)
    }

    #[test]
    fn an_event_is_bounded_however_its_lines_end_and_its_bytes_arrive() {
        for end in ["\n", "\r\n", "\r"] {
            let short = format!("data: a{end}{end}").repeat(3);
            let lines = format!("data: a{end}data: b{end}");
            let long = format!("data: {}", "a".repeat(20));
            for (text, expected) in [(short, None), (lines, Some(10)), (long, Some(10))] {
                assert_eq!(exceeded(&[&text]), expected, "{text:?}");
                let bytes: Vec<String> = text.chars().map(String::from).collect();
                let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
                assert_eq!(exceeded(&bytes), expected, "{text:?}");
            }
        }
    }

    #[test]
    fn a_whole_reply_is_bounded() {
        assert_eq!(exceeded(&["a\n\n"; 33]), None);
        assert_eq!(exceeded(&["a\n\n"; 34]), Some(100));
    }

    #[test]
    fn the_bound_is_found_in_the_error_of_the_decoder() {
        let error = io::Error::other(BoundExceeded(7));
        assert_eq!(exceeded_bound(&sse_stream::Error::Body(Box::new(error))), Some(7));
        let other = io::Error::other("closed");
        assert_eq!(exceeded_bound(&sse_stream::Error::Body(Box::new(other))), None);
    }
}
