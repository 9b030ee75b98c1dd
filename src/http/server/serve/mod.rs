//! The accept loop: connections are bounded in number, and each of them in the time it may waste.

mod body;
mod connection;
mod pace;
mod site;
mod stall;
mod streams;
mod timeouts;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use connection::Connection;
pub use site::Site;
pub use timeouts::Timeouts;

/// Connections at a time. Those beyond it wait with the kernel, where they cost nothing, until one
/// ends; there are fewer streams than this, and everything else ends soon.
const MAX_CONNECTIONS: usize = 12_000;
/// The pause after the system has refused a connection: it is out of files or memory, which other
/// connections give back when they end.
const PAUSE: Duration = Duration::from_millis(100);
/// Serves until the service drains, and returns when the last connection has ended. Whoever drops
/// the future ends them.
pub async fn serve(listener: TcpListener, site: Site) {
    let connections = TaskTracker::new();
    let ended = CancellationToken::new();
    let _end_with_this = ended.clone().drop_guard();
    let draining = site.draining.clone();
    let template = Connection::new(site);
    let accepting = async {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    pause_after(&error).await;
                    continue;
                }
            };
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection keeps Nagle's algorithm");
            }
            let (connection, ended) = (template.clone(), ended.clone());
            connections.spawn(async move {
                ended.run_until_cancelled(connection.serve(stream, peer.ip())).await;
                drop(slot);
            });
        }
    };
    draining.run_until_cancelled(accepting).await;
    // Who comes now is told at once that nobody is here.
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// A client that left before it was met is no reason to pause.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        return;
    }
    tracing::warn!(%error, "a connection cannot be accepted");
    sleep(PAUSE).await;
}
