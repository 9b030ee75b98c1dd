//! A way to a service on which things get lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::support::TestApp;

/// A way to a service, which can be broken.
pub(super) struct Way {
    pub(super) url: String,
    trouble: Arc<Trouble>,
    _stop: DropGuard,
}

#[derive(Default)]
struct Trouble {
    /// Whether the answer to the next post of a message is to be lost, with its connection.
    loses_answer: AtomicBool,
    /// Whether nothing passes any more.
    is_silent: AtomicBool,
    /// Behind which words of the service its connection breaks, one after the other.
    breaks: Mutex<Vec<String>>,
}

impl Way {
    pub(super) async fn to(app: &TestApp) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (trouble, stop) = (Arc::new(Trouble::default()), CancellationToken::new());
        let (address, ours) = (app.address, Arc::clone(&trouble));
        let links = TaskTracker::new();
        TaskTracker::new().spawn(stop.clone().run_until_cancelled_owned(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(address).await.unwrap();
                links.spawn(join(client, server, Arc::clone(&ours)));
            }
        }));
        Self { url, trouble, _stop: stop.drop_guard() }
    }

    /// Breaks the connection on which the service says this, right behind it; then the one on
    /// which it says the next, and so on.
    pub(super) fn break_behind(&self, words: &[&str]) {
        let words = words.iter().rev().map(|word| (*word).to_owned());
        *self.trouble.breaks.lock().unwrap() = words.collect();
    }

    /// What has not been said yet of that.
    pub(super) fn unbroken(&self) -> Vec<String> {
        self.trouble.breaks.lock().unwrap().clone()
    }

    /// Loses the answer to the next post of a message.
    pub(super) fn lose_answer(&self) {
        self.trouble.loses_answer.store(true, Ordering::SeqCst);
    }

    /// Whether that was lost.
    pub(super) fn has_lost(&self) -> bool {
        !self.trouble.loses_answer.load(Ordering::SeqCst)
    }

    /// Passes nothing on any more, and closes nothing.
    pub(super) fn drop_traffic(&self) {
        self.trouble.is_silent.store(true, Ordering::SeqCst);
    }
}

impl Trouble {
    /// How much of what the service says gets through, if the connection breaks there.
    fn breaks_at(&self, piece: &[u8]) -> Option<usize> {
        let mut breaks = self.breaks.lock().unwrap();
        let word = breaks.last()?.as_bytes();
        let at = piece.windows(word.len()).position(|window| window == word)? + word.len();
        breaks.pop();
        Some(at)
    }
}

async fn join(client: TcpStream, server: TcpStream, trouble: Arc<Trouble>) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let is_losing = AtomicBool::new(false);
    tokio::select! {
        () = ask(from_client, to_server, &trouble, &is_losing) => {}
        () = answer(from_server, to_client, &trouble, &is_losing) => {}
    }
}

async fn ask(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    trouble: &Trouble,
    is_losing: &AtomicBool,
) {
    let mut piece = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        let text = String::from_utf8_lossy(&piece[..read]);
        if text.starts_with("POST") && text.contains("/messages ") {
            is_losing.store(trouble.loses_answer.swap(false, Ordering::SeqCst), Ordering::SeqCst);
        }
        if trouble.is_silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if to.write_all(&piece[..read]).await.is_err() {
            return;
        }
    }
}

async fn answer(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    trouble: &Trouble,
    is_losing: &AtomicBool,
) {
    let mut piece = vec![0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut piece).await {
        if trouble.is_silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if is_losing.load(Ordering::SeqCst) {
            return;
        }
        let breaks_at = trouble.breaks_at(&piece[..read]);
        let passed = to.write_all(&piece[..breaks_at.unwrap_or(read)]).await;
        if passed.is_err() || breaks_at.is_some() {
            return;
        }
    }
}
