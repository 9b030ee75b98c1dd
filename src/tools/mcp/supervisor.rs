//! The supervisor of one server: reconnects it and keeps its tool list current.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{Peer, RoleClient};
use tokio::time::{Instant, interval_at, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, ConnectionError, Listener, connect, list, ping};
use super::server::Server;
use super::tool_list::usable_tools;
use crate::tools::registry::ListChanges;
use crate::tools::registry::Registry;

/// Timeout of the handshake, including the tool list.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval between pings.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Timeout of closing a connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Minimum time between two reads of the tool list.
const MIN_READ_INTERVAL: Duration = Duration::from_secs(1);
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// The supervisor of one server.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub(super) server: Arc<Server>,
    pub(super) registry: Arc<Registry>,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

impl Supervisor {
    /// Connects, and reconnects with backoff, until `stop` is cancelled.
    pub(super) async fn run(self) {
        let mut backoff = FIRST_BACKOFF;
        // The first of several failures in a row is a warning, the others are debug
        // messages.
        let mut has_warned = false;
        while !self.stop.is_cancelled() {
            let began = Instant::now();
            let ended = Box::pin(self.connection()).await;
            self.server.connect(None);
            let Err(error) = ended else { return };
            self.server.tried.send_replace(true);
            if began.elapsed() > MAX_BACKOFF {
                (backoff, has_warned) = (FIRST_BACKOFF, false);
            }
            let server = &self.server.settings().name;
            if has_warned {
                tracing::debug!(mcp.server = %server, %error, "tool server not connected");
            } else {
                tracing::warn!(mcp.server = %server, %error, "tool server not connected");
            }
            has_warned = true;
            // Jitter: connections that failed together must not be retried together.
            let jittered = backoff.mul_f64(0.5 + fastrand::f64() / 2.0);
            let _ = self.unless_stopped(sleep(jittered)).await;
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }

    /// Opens one connection and serves it until it closes. Returns `Ok` only after `stop`.
    async fn connection(&self) -> Result<(), ConnectionError> {
        let listener = Listener::default();
        let begin = Box::pin(timeout(HANDSHAKE_TIMEOUT, self.begin(listener.clone())));
        let Some(begun) = self.unless_stopped(begin).await else { return Ok(()) };
        let connection = begun??;
        let (peer, end) = (connection.peer().clone(), connection.cancellation_token());
        self.server.connect(Some(peer.clone()));
        self.server.tried.send_replace(true);
        let mut waiting = pin!(connection.waiting());
        let ended = self.serve_events(&peer, &listener, waiting.as_mut()).await;
        self.server.connect(None);
        end.cancel();
        if !matches!(ended, Err(ConnectionError::Closed)) {
            let _ = timeout(CLOSE_TIMEOUT, waiting).await;
        }
        ended
    }

    async fn begin(&self, listener: Listener) -> Result<Connection, ConnectionError> {
        let connection = connect(self.server.settings(), listener, &self.tasks).await?;
        self.read_list(connection.peer()).await?;
        Ok(connection)
    }

    /// Handles the server's notifications and sends pings.
    async fn serve_events(
        &self,
        peer: &Peer<RoleClient>,
        listener: &Listener,
        mut ended: Pin<&mut impl Future>,
    ) -> Result<(), ConnectionError> {
        let mut pings = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        loop {
            let needs_ping = tokio::select! {
                _ = ended.as_mut() => return Err(ConnectionError::Closed),
                () = self.stop.cancelled() => return Ok(()),
                () = listener.list_changed.notified() => false,
                () = self.server.connection_suspect.notified() => true,
                _ = pings.tick() => true,
            };
            let pinged = async {
                if !needs_ping {
                    self.read_list(peer).await?;
                    sleep(MIN_READ_INTERVAL).await;
                } else if self.server.is_idle() {
                    ping(peer).await?;
                }
                Ok::<(), ConnectionError>(())
            };
            if let Some(pinged) = self.unless_stopped(timeout(HANDSHAKE_TIMEOUT, pinged)).await {
                pinged??;
            }
        }
    }

    /// Reads the tool list and updates the registry.
    async fn read_list(&self, peer: &Peer<RoleClient>) -> Result<(), ConnectionError> {
        let tools = usable_tools(&self.server, list(peer).await?);
        let (count, name) = (tools.len(), &self.server.settings().name);
        match self.registry.serve(name, tools) {
            Ok(changes) => {
                self.server.list(count, changes.as_ref().is_some_and(ListChanges::are_any));
                self.log_changes(count, changes);
            }
            Err(error) => {
                tracing::error!(mcp.server = %name, %error, "tools of the server rejected");
            }
        }
        Ok(())
    }

    fn log_changes(&self, count: usize, changes: Option<ListChanges>) {
        let name = &self.server.settings().name;
        match changes {
            None => tracing::info!(mcp.server = %name, tools = count, "tool server connected"),
            Some(changes) if changes.are_any() => {
                let ListChanges { added, removed, altered } = changes;
                tracing::warn!(
                    mcp.server = %name, ?added, ?removed, ?altered,
                    "tool list changed; existing sessions keep their tools"
                );
            }
            Some(_) => tracing::info!(mcp.server = %name, tools = count, "tool list unchanged"),
        }
    }

    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            () = self.stop.cancelled() => None,
            done = work => Some(done),
        }
    }
}
