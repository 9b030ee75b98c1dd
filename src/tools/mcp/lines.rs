//! Lines that end: a message of a program is a line, and one without end is none.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

/// The longest message, in bytes.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// Lines in one period. Those that are no messages never get as far as to be counted with them.
const MOST_LINES: usize = 50_000;
const PERIOD: Duration = Duration::from_secs(10);

/// What is read from a program, for as long as its lines are neither too long nor too many.
#[derive(Debug)]
pub(super) struct Lines<R> {
    inner: R,
    /// Bytes since the last end of a line.
    length: usize,
    /// Lines in this period.
    count: usize,
    since: Instant,
}

impl<R> Lines<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, length: 0, count: 0, since: Instant::now() }
    }

    /// Takes note of what was read.
    fn note(&mut self, read: &[u8]) {
        self.length = match memchr::memrchr(b'\n', read) {
            Some(end) => read.len() - end - 1,
            None => self.length + read.len(),
        };
        if self.since.elapsed() >= PERIOD {
            (self.since, self.count) = (Instant::now(), 0);
        }
        self.count += memchr::memchr_iter(b'\n', read).count();
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // What was read before is passed on: an error comes alone.
        if self.length > MAX_MESSAGE {
            return Poll::Ready(Err(io::Error::other("a message has no end")));
        }
        if self.count > MOST_LINES {
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
        Lines::new(bytes.as_slice()).read_to_end(&mut Vec::new()).await
    }

    #[tokio::test]
    async fn a_line_may_be_long_and_not_longer() {
        let line = || [vec![b'x'; MAX_MESSAGE - 1], vec![b'\n']].concat();
        assert_eq!(read([line(), line()].concat()).await.unwrap(), 2 * MAX_MESSAGE);
        let error = read(vec![b'x'; 2 * MAX_MESSAGE]).await.unwrap_err();
        assert_eq!(error.to_string(), "a message has no end");
    }

    #[tokio::test]
    async fn lines_may_be_many_and_not_more() {
        assert_eq!(read(vec![b'\n'; MOST_LINES]).await.unwrap(), MOST_LINES);
        let error = read(vec![b'\n'; 2 * MOST_LINES]).await.unwrap_err();
        assert_eq!(error.to_string(), "there are too many lines");
    }
}
