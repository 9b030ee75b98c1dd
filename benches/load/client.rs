//! A minimal client with one persistent connection. It searches for a few byte patterns instead of
//! parsing, so that the CPU is left to the measured service.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use memchr::memmem::find;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::report::sample::Turn;

/// The timeout of a request, far above the slowest normal turn.
const TIMEOUT: Duration = Duration::from_mins(1);
/// The length of the first part of a response, which has the status.
const STATUS: usize = b"HTTP/1.1 2".len();
const HEAD_END: &[u8] = b"\r\n\r\n";
/// The last chunk of a response. JSON contains no raw CRLF, so no event matches it.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";
/// The first output of the model: a delta, or the complete message if the deltas were missed.
const OUTPUT: &[&[u8]] = &[b"event: event_delta", b"event: agent."];
/// The result of a tool that succeeded.
const RESULT: &[&[u8]] = &[br#""is_error":false"#];
/// The first output of the model after the result of the tool.
const ANSWER: &[&[u8]] = &[b"event: event_delta", b"event: agent.message"];
const LONGEST: usize = 20;
/// The end of a successful turn.
const END: &[u8] = b"end_turn";

/// The course of a turn: what must occur in its stream, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Course {
    /// The model calls a tool and then answers.
    Tool,
    /// The model answers.
    Answer,
}

impl Course {
    fn stages(self) -> &'static [&'static [&'static [u8]]] {
        match self {
            Self::Tool => &[OUTPUT, RESULT, ANSWER],
            Self::Answer => &[OUTPUT],
        }
    }
}

/// One persistent connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    host: SocketAddr,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(host: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(host).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, host, buffer: Vec::with_capacity(16 * 1024) })
    }

    /// Creates a session and returns its id.
    pub(crate) async fn create_session(&mut self) -> anyhow::Result<String> {
        let body = timeout(TIMEOUT, self.json("POST", "/v1/sessions", "{}")).await??;
        let session: serde_json::Value = serde_json::from_slice(&body)?;
        let id = session.get("id").and_then(|id| id.as_str());
        Ok(id.context("a session without an id")?.to_owned())
    }

    /// Creates this many sessions, one after the other.
    pub(crate) async fn create_sessions(&mut self, count: u32) -> anyhow::Result<Vec<String>> {
        let mut sessions = Vec::new();
        for _ in 0..count {
            sessions.push(self.create_session().await?);
        }
        Ok(sessions)
    }

    /// Returns true if the service reports that it is ready.
    pub(crate) async fn is_ready(&mut self) -> bool {
        let answer = timeout(TIMEOUT, self.json("GET", "/readyz", "")).await;
        answer.is_ok_and(|answer| answer.is_ok())
    }

    /// Posts a message and reads the stream of its turn, in which the model calls a tool, to the end.
    pub(crate) async fn turn(&mut self, session: &str, text: &str) -> anyhow::Result<Turn> {
        timeout(TIMEOUT, self.read_turn(session, text, Course::Tool)).await?
    }

    /// Posts a message and reads the stream of its turn to the end, without a time limit.
    pub(crate) async fn read_turn(
        &mut self,
        session: &str,
        text: &str,
        course: Course,
    ) -> anyhow::Result<Turn> {
        let body = serde_json::json!({ "content": text }).to_string();
        let started = Instant::now();
        let path = format!("/v1/sessions/{session}/messages");
        self.send("POST", &path, &body).await?;
        let mut times = Vec::new();
        let mut searched = 0;
        while !self.buffer.ends_with(LAST_CHUNK) {
            self.read().await?;
            let now = started.elapsed();
            while let Some(stage) = course.stages().get(times.len()) {
                let Some(end) = self.find_any(searched, stage) else {
                    searched = searched.max(self.buffer.len().saturating_sub(LONGEST));
                    break;
                };
                searched = end;
                times.push(now);
            }
            ensure!(self.buffer.len() < STATUS || self.is_ok(), "no turn: {}", self.text());
        }
        let whole = started.elapsed();
        let is_complete = times.len() == course.stages().len() && find(&self.buffer, END).is_some();
        match (times.first(), times.last()) {
            (Some(first), Some(answer)) if is_complete => {
                Ok(Turn { first: *first, answer: *answer, whole })
            }
            _ => bail!("a bad turn: {}", self.text()),
        }
    }

    /// Opens the event stream of a session, and returns when its first bytes have arrived.
    pub(crate) async fn follow(&mut self, session: &str) -> anyhow::Result<()> {
        let path = format!("/v1/sessions/{session}/events/stream");
        self.send("GET", &path, "").await?;
        let begun = async {
            self.read_past(HEAD_END).await?;
            ensure!(self.is_ok(), "no stream: {}", self.text());
            self.read_past(b"\n\r\n").await
        };
        timeout(TIMEOUT, begun).await??;
        Ok(())
    }

    /// Searches from a position on, and returns the end of the first match of any pattern.
    fn find_any(&self, from: usize, patterns: &[&[u8]]) -> Option<usize> {
        let text = self.buffer.get(from..)?;
        let ends = patterns.iter().filter_map(|word| Some(find(text, word)? + word.len()));
        ends.min().map(|end| from + end)
    }

    async fn json(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<Vec<u8>> {
        self.send(method, path, body).await?;
        let body_at = self.read_past(HEAD_END).await?;
        ensure!(self.is_ok(), "{method} {path}: {}", self.text());
        let head = self.text().to_ascii_lowercase();
        let length = head.split("content-length:").nth(1);
        let length = length.and_then(|rest| rest.lines().next());
        let length: usize = length.context("no length")?.trim().parse()?;
        while self.buffer.len() < body_at + length {
            self.read().await?;
        }
        Ok(self.buffer.split_off(body_at))
    }

    async fn send(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<()> {
        self.buffer.clear();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\naccept: {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.host,
            if path.ends_with("/messages") || path.ends_with("/stream") {
                "text/event-stream"
            } else {
                "application/json"
            },
            body.len(),
        );
        Ok(self.stream.write_all(request.as_bytes()).await?)
    }

    /// Reads until the pattern occurs, and returns the position after it.
    async fn read_past(&mut self, what: &[u8]) -> anyhow::Result<usize> {
        loop {
            if let Some(at) = find(&self.buffer, what) {
                return Ok(at + what.len());
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the connection was closed after: {}", self.text());
        }
        Ok(())
    }

    fn is_ok(&self) -> bool {
        self.buffer.starts_with(b"HTTP/1.1 2")
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.buffer).into_owned()
    }
}
