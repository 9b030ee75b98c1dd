//! HTTP as bytes, for requests and responses that a client library would hide or reject.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The time limit of every read, also on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Sends bytes, closes the sending side, and reads until the server closes the connection.
pub(crate) async fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    socket.shutdown().await.unwrap();
    let mut answer = Vec::new();
    // A server that closes the connection before it has read everything may reset it.
    let read = timeout(TIME_LIMIT, socket.read_to_end(&mut answer)).await;
    let _ = read.expect("the server neither answered nor closed the connection");
    String::from_utf8_lossy(&answer).into_owned()
}

/// An HTTP/1.1 response with chunked encoding, read step by step.
pub(crate) struct RawStream {
    socket: TcpStream,
    unread: Vec<u8>,
    /// Status line and headers, in lower case.
    pub(crate) head: String,
    /// The part of the body that has been read.
    pub(crate) body: String,
}

impl RawStream {
    /// Sends a request of this head and body, and reads the head of its response.
    pub(crate) async fn open(address: SocketAddr, head: &str, body: &str) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let length = body.len();
        let request =
            format!("{head}\r\nhost: {address}\r\ncontent-length: {length}\r\n\r\n{body}");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut stream =
            Self { socket, unread: Vec::new(), head: String::new(), body: String::new() };
        stream.head = stream.until_mark(b"\r\n\r\n").await.to_ascii_lowercase();
        stream
    }

    /// Reads until the body contains `text` this many times. Fails the test if the body ends earlier.
    pub(crate) async fn read_until(&mut self, text: &str, times: usize) {
        while self.body.matches(text).count() < times {
            assert!(self.chunk().await, "the body ended at {:?}", self.body);
        }
    }

    /// Reads to the clean end of the body.
    pub(crate) async fn read_to_end(&mut self) {
        while self.chunk().await {}
    }

    /// Reads one chunk; returns false for the last one, which is empty.
    async fn chunk(&mut self) -> bool {
        let size = self.until_mark(b"\r\n").await;
        let size = usize::from_str_radix(size.trim(), 16).unwrap();
        while self.unread.len() < size + 2 {
            self.fill().await;
        }
        let chunk: Vec<u8> = self.unread.drain(..size + 2).collect();
        self.body.push_str(std::str::from_utf8(&chunk[..size]).unwrap());
        size > 0
    }

    async fn until_mark(&mut self, mark: &[u8]) -> String {
        loop {
            let found = self.unread.windows(mark.len()).position(|bytes| bytes == mark);
            if let Some(start) = found {
                let taken: Vec<u8> = self.unread.drain(..start + mark.len()).collect();
                return String::from_utf8(taken).unwrap();
            }
            self.fill().await;
        }
    }

    async fn fill(&mut self) {
        let read = timeout(TIME_LIMIT, self.socket.read_buf(&mut self.unread)).await;
        let read = read.expect("nothing was received for 30 s").unwrap();
        assert!(read > 0, "the connection was closed");
    }
}
