//! Limits on the lines that a server program writes. Each MCP message is one line.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

/// Maximum size of a message, in bytes.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Maximum number of lines in one period. It includes lines that are not valid messages, which the
/// flood guard never receives.
const MAX_LINES: usize = 50_000;
const PERIOD: Duration = Duration::from_secs(10);

/// A reader that fails when lines are too long or too many.
#[derive(Debug)]
pub(super) struct BoundedLines<R> {
    inner: R,
    /// Bytes since the last line break.
    length: usize,
    /// Lines in this period.
    count: usize,
    period_start: Instant,
}

impl<R> BoundedLines<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, length: 0, count: 0, period_start: Instant::now() }
    }

    /// Updates the counters for the bytes read.
    fn note(&mut self, read: &[u8]) {
        self.length = match memchr::memrchr(b'\n', read) {
            Some(end) => read.len() - end - 1,
            None => self.length + read.len(),
        };
        if self.period_start.elapsed() >= PERIOD {
            (self.period_start, self.count) = (Instant::now(), 0);
        }
        self.count += memchr::memchr_iter(b'\n', read).count();
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Bytes of an earlier read have already been passed on.
        if self.length > MAX_MESSAGE {
            return Poll::Ready(Err(io::Error::other("a message is too long")));
        }
        if self.count > MAX_LINES {
            return Poll::Ready(Err(io::Error::other("there are too many lines")));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        self.note(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    async fn read(bytes: Vec<u8>) -> io::Result<usize> {
        BoundedLines::new(bytes.as_slice()).read_to_end(&mut Vec::new()).await
    }

    #[tokio::test]
    async fn a_line_longer_than_the_limit_is_an_error() {
        let line = || [vec![b'x'; MAX_MESSAGE - 1], vec![b'\n']].concat();
        assert_eq!(read([line(), line()].concat()).await.unwrap(), 2 * MAX_MESSAGE);
        let error = read(vec![b'x'; 2 * MAX_MESSAGE]).await.unwrap_err();
        assert_eq!(error.to_string(), "a message is too long");
    }

    #[tokio::test]
    async fn more_lines_than_the_limit_are_an_error() {
        assert_eq!(read(vec![b'\n'; MAX_LINES]).await.unwrap(), MAX_LINES);
        let error = read(vec![b'\n'; 2 * MAX_LINES]).await.unwrap_err();
        assert_eq!(error.to_string(), "there are too many lines");
    }
}
