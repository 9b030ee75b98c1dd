//! A proxy to the database that cuts connections during a commit.
//!
//! Statements of the service are transactions of their own, so the `Sync` message after a writing
//! statement commits it. Half of the cuts happen directly before it is forwarded, half directly
//! after.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::testbed::locked;

/// A running proxy. It stops when this is dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Shared {
    socket: PathBuf,
    rng: Mutex<Rng>,
    per_mille: AtomicU32,
    cuts: AtomicU32,
}

impl Proxy {
    pub(crate) async fn start(socket: &Path, rng: Rng) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            socket: socket.to_owned(),
            rng: Mutex::new(rng),
            per_mille: AtomicU32::new(0),
            cuts: AtomicU32::new(0),
        });
        let stop = CancellationToken::new();
        let serving = serve(listener, Arc::clone(&shared), stop.clone());
        TaskTracker::new().spawn(stop.clone().run_until_cancelled_owned(serving));
        Ok(Self { port, shared, _stop: stop.drop_guard() })
    }

    /// Sets how many of a thousand commits are cut.
    pub(crate) fn cut_per_mille(&self, commits: u32) {
        self.shared.per_mille.store(commits, Ordering::Relaxed);
    }

    pub(crate) fn cuts(&self) -> u32 {
        self.shared.cuts.load(Ordering::Relaxed)
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let tasks = TaskTracker::new();
    while let Ok((client, _)) = listener.accept().await {
        let forwarded = forward(client, Arc::clone(&shared));
        tasks.spawn(stop.clone().run_until_cancelled_owned(forwarded));
    }
}

/// The position of a cut, relative to the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    Before,
    After,
}

impl Shared {
    fn cut(&self) -> Option<Cut> {
        let mut rng = locked(&self.rng);
        if rng.u32(..1000) >= self.per_mille.load(Ordering::Relaxed) {
            return None;
        }
        self.cuts.fetch_add(1, Ordering::Relaxed);
        Some(if rng.bool() { Cut::Before } else { Cut::After })
    }
}

/// Forwards one connection.
async fn forward(client: TcpStream, shared: Arc<Shared>) {
    let _ = client.set_nodelay(true);
    let Ok(server) = UnixStream::connect(&shared.socket).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = TaskTracker::new();
    let is_cut = CancellationToken::new();
    let back = is_cut.clone();
    answers.spawn(async move {
        let copied = back.run_until_cancelled(copy(&mut from_server, &mut to_client)).await;
        drop(to_client);
        if copied.is_none() {
            // Read the rest, so that the server can finish the commit.
            let _ = copy(&mut from_server, &mut tokio::io::sink()).await;
        }
    });
    let mut reader = Reader::default();
    let mut bytes = [0; 16 * 1024];
    while let Ok(read) = from_client.read(&mut bytes).await
        && read > 0
    {
        reader.pending.extend(&bytes[..read]);
        while let Some(message) = reader.next() {
            let cut = if message.commits { shared.cut() } else { None };
            if cut != Some(Cut::Before) && to_server.write_all(&message.bytes).await.is_err() {
                return;
            }
            if cut.is_some() {
                is_cut.cancel();
                return;
            }
        }
    }
}

/// Splits the bytes of a client into messages of the Postgres protocol.
#[derive(Debug, Default)]
struct Reader {
    pending: VecDeque<u8>,
    has_begun: bool,
    /// Whether each prepared statement writes, by its name.
    statements: HashMap<Vec<u8>, bool>,
    writes: bool,
}

#[derive(Debug)]
struct Message {
    bytes: Vec<u8>,
    commits: bool,
}

impl Reader {
    /// Returns the next complete message.
    fn next(&mut self) -> Option<Message> {
        // The startup message has no type byte.
        let head = usize::from(self.has_begun);
        let length: Vec<u8> = self.pending.iter().skip(head).take(4).copied().collect();
        let length = u32::from_be_bytes(length.try_into().ok()?);
        let whole = head + usize::try_from(length).ok()?;
        if self.pending.len() < whole {
            return None;
        }
        let bytes: Vec<u8> = self.pending.drain(..whole).collect();
        let commits = self.has_begun && self.commits(&bytes);
        self.has_begun = true;
        Some(Message { bytes, commits })
    }

    /// Returns whether this message commits a transaction that writes.
    fn commits(&mut self, message: &[u8]) -> bool {
        let mut parts = message.get(5..).unwrap_or_default().split(|byte| *byte == 0);
        match message.first() {
            Some(b'P') => {
                let name = parts.next().unwrap_or_default().to_vec();
                let sql = String::from_utf8_lossy(parts.next().unwrap_or_default());
                self.statements
                    .insert(name, sql.contains("INSERT INTO") || sql.contains("UPDATE "));
                false
            }
            Some(b'B') => {
                let name = parts.nth(1).unwrap_or_default();
                self.writes |= self.statements.get(name).copied().unwrap_or(false);
                false
            }
            Some(b'S') => std::mem::take(&mut self.writes),
            // The commit of a transaction of several statements.
            Some(b'Q') => parts.next().is_some_and(|sql| sql.starts_with(b"COMMIT")),
            _ => false,
        }
    }
}
