//! A socket with a write timeout, for clients that do not read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::connection_deadline::ConnectionDeadline;
use super::timeouts::SHUTDOWN_TIMEOUT;

/// The bytes that a connection reads before it yields to others. Many small HTTP/2 frames are much
/// work, and a client that sends them endlessly would otherwise occupy a thread.
const READ_QUANTUM: usize = 2 * 1024;

/// The socket of a connection. It reports reads to the deadline, and fails writes that stall.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    pub(super) deadline: Arc<ConnectionDeadline>,
    /// The maximum time without a written byte.
    pub(super) timeout: Duration,
    /// Fires when the service begins to stop, which shortens that time.
    pub(super) draining: CancellationToken,
    /// Bytes read since the last yield.
    pub(super) read: usize,
    /// The time of the last progress while writes are blocked, and the timer of the timeout.
    pub(super) stall: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Socket {
    /// Passes on the result of a write; fails a write that is blocked for too long.
    fn check_stall<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stall = None;
            return written;
        }
        let most = if self.draining.is_cancelled() { SHUTDOWN_TIMEOUT } else { Duration::MAX };
        let timeout = self.timeout.min(most);
        let (since, timer) = self.stall.get_or_insert_with(|| {
            let now = Instant::now();
            (now, Box::pin(sleep_until(now + timeout)))
        });
        if timer.deadline() != *since + timeout {
            timer.as_mut().reset(*since + timeout);
        }
        ready!(timer.as_mut().poll(cx));
        // The kernel drops the unsent data as well.
        let _ = self.stream.set_zero_linger();
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.read >= READ_QUANTUM {
            this.read = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let room = buf.remaining().min(READ_QUANTUM - this.read);
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
        let read = Pin::new(&mut this.stream).poll_read(cx, &mut part);
        let bytes = part.filled().len();
        buf.advance(bytes);
        if bytes > 0 {
            this.deadline.received();
        }
        this.read = if read.is_ready() { this.read + bytes } else { 0 };
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, buf);
        this.check_stall(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, bufs);
        this.check_stall(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// A TCP socket has no buffer to flush, so this shows no progress of the client.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;
    use crate::http::server::serve::Timeouts;

    /// Bytes that are read before it is others' turn.
    fn one_turn(socket: &mut Socket) -> usize {
        let mut cx = Context::from_waker(Waker::noop());
        let mut space = vec![0; 1024];
        let mut read = 0;
        loop {
            let mut space = ReadBuf::new(&mut space);
            match Pin::new(&mut *socket).poll_read(&mut cx, &mut space) {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending => return read,
            }
            read += space.filled().len();
        }
    }

    #[tokio::test]
    async fn reading_yields_after_each_quantum() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut all = vec![0; 3 * READ_QUANTUM];
        client.write_all(&all).await.unwrap();
        while stream.peek(&mut all).await.unwrap() < all.len() {}
        let mut socket = Socket {
            stream,
            deadline: ConnectionDeadline::new(Timeouts::default()),
            timeout: Duration::MAX,
            draining: CancellationToken::new(),
            read: 0,
            stall: None,
        };
        assert_eq!(
            [(); 4].map(|()| one_turn(&mut socket)),
            [READ_QUANTUM, READ_QUANTUM, READ_QUANTUM, 0]
        );
    }
}
