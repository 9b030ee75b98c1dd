//! A TCP connection to a service that loses responses and breaks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::support::TestApp;

/// A TCP forwarder to a service, with faults.
pub(super) struct LossyLink {
    pub(super) url: String,
    faults: Arc<LinkFaults>,
    _stop: DropGuard,
}

#[derive(Default)]
struct LinkFaults {
    /// The connection of the next posted message is closed without its response.
    loses_response: AtomicBool,
    /// No traffic is forwarded.
    is_silent: AtomicBool,
    /// The texts of the service after which its connection breaks, in reverse order.
    breaks: Mutex<Vec<String>>,
}

impl LossyLink {
    pub(super) async fn to(app: &TestApp) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (faults, stop) = (Arc::new(LinkFaults::default()), CancellationToken::new());
        let (address, shared) = (app.address, Arc::clone(&faults));
        let connections = TaskTracker::new();
        TaskTracker::new().spawn(stop.clone().run_until_cancelled_owned(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(address).await.unwrap();
                connections.spawn(relay(client, server, Arc::clone(&shared)));
            }
        }));
        Self { url, faults, _stop: stop.drop_guard() }
    }

    /// Breaks the connection right after the service has sent the first text, then the connection
    /// on which it sends the second text, and so on.
    pub(super) fn break_after(&self, texts: &[&str]) {
        let texts = texts.iter().rev().map(|text| (*text).to_owned());
        *self.faults.breaks.lock().unwrap() = texts.collect();
    }

    /// The texts of [`Self::break_after`] that the service has not sent yet.
    pub(super) fn remaining_breaks(&self) -> Vec<String> {
        self.faults.breaks.lock().unwrap().clone()
    }

    /// Loses the response to the next posted message.
    pub(super) fn lose_response(&self) {
        self.faults.loses_response.store(true, Ordering::SeqCst);
    }

    /// Reports whether a response was lost.
    pub(super) fn has_lost_response(&self) -> bool {
        !self.faults.loses_response.load(Ordering::SeqCst)
    }

    /// Stops forwarding traffic, and keeps all connections open.
    pub(super) fn drop_traffic(&self) {
        self.faults.is_silent.store(true, Ordering::SeqCst);
    }
}

impl LinkFaults {
    /// If the connection breaks in this chunk, the number of bytes that are forwarded before.
    fn breaks_at(&self, chunk: &[u8]) -> Option<usize> {
        let mut breaks = self.breaks.lock().unwrap();
        let text = breaks.last()?.as_bytes();
        let at = chunk.windows(text.len()).position(|window| window == text)? + text.len();
        breaks.pop();
        Some(at)
    }
}

async fn relay(client: TcpStream, server: TcpStream, faults: Arc<LinkFaults>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let is_losing = AtomicBool::new(false);
    tokio::select! {
        () = forward_requests(from_client, to_server, &faults, &is_losing) => {}
        () = forward_responses(from_server, to_client, &faults, &is_losing) => {}
    }
}

async fn forward_requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    faults: &LinkFaults,
    is_losing: &AtomicBool,
) {
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        let text = String::from_utf8_lossy(&chunk[..read]);
        if text.starts_with("POST") && text.contains("/messages ") {
            is_losing.store(faults.loses_response.swap(false, Ordering::SeqCst), Ordering::SeqCst);
        }
        if faults.is_silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if to.write_all(&chunk[..read]).await.is_err() {
            return;
        }
    }
}

async fn forward_responses(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    faults: &LinkFaults,
    is_losing: &AtomicBool,
) {
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        if faults.is_silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if is_losing.load(Ordering::SeqCst) {
            return;
        }
        let breaks_at = faults.breaks_at(&chunk[..read]);
        let forwarded = to.write_all(&chunk[..breaks_at.unwrap_or(read)]).await;
        if forwarded.is_err() || breaks_at.is_some() {
            return;
        }
    }
}
