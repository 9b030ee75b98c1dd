//! The accept loop, which bounds the number of connections and the time that each may take.

mod body;
mod connection;
mod connection_deadline;
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

/// The maximum number of open connections. Further ones wait in the backlog of the kernel. It
/// exceeds the maximum number of streams; all other requests are short.
const MAX_CONNECTIONS: usize = 12_000;
/// The pause after a failed accept: the system is out of file descriptors or memory, which closing
/// connections release.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until the service drains, and returns when the last connection is closed.
/// Dropping the future closes all connections.
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
                tracing::debug!(%error, "TCP_NODELAY could not be set");
            }
            let (connection, ended) = (template.clone(), ended.clone());
            connections.spawn(async move {
                ended.run_until_cancelled(connection.serve(stream, peer.ip())).await;
                drop(slot);
            });
        }
    };
    draining.run_until_cancelled(accepting).await;
    // Closing the listener makes the kernel refuse new connections at once.
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Pauses after a failed accept, unless the client closed the connection before it was accepted.
async fn pause_after(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
        return;
    }
    tracing::warn!(%error, "accept failed");
    sleep(PAUSE).await;
}
