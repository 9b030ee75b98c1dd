//! Keeps one server connected, and its list of tools as it is.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{Peer, RoleClient};
use tokio::time::{Instant, interval_at, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, ConnectionError, Listener, connect, list, ping};
use super::offer::offered;
use super::server::Server;
use crate::tools::Registry;
use crate::tools::registry::ListChanges;

/// What a server may take to begin, its list of tools included.
const BEGIN_WITHIN: Duration = Duration::from_secs(30);
/// Silence after which it is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(30);
/// What a connection may take to end.
const END_WITHIN: Duration = Duration::from_secs(3);
/// Lists that change all the time are read again this often.
const READ_EVERY: Duration = Duration::from_secs(1);
const FIRST_REST: Duration = Duration::from_millis(500);
const LONGEST_REST: Duration = Duration::from_secs(30);

/// One server, and what it takes to keep it.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) server: Arc<Server>,
    pub(super) registry: Arc<Registry>,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

impl Keeper {
    /// Connects again and again, until it is told to stop.
    pub(super) async fn run(self) {
        let mut rest = FIRST_REST;
        // The first of a row is told to everybody, the others to who wants to know more.
        let mut is_told = false;
        while !self.stop.is_cancelled() {
            let began = Instant::now();
            let ended = Box::pin(self.connection()).await;
            self.server.connect(None);
            let Err(error) = ended else { return };
            self.server.tried.send_replace(true);
            if began.elapsed() > LONGEST_REST {
                (rest, is_told) = (FIRST_REST, false);
            }
            let server = &self.server.settings().name;
            if is_told {
                tracing::debug!(mcp.server = %server, %error, "a tool server is not connected");
            } else {
                tracing::warn!(mcp.server = %server, %error, "a tool server is not connected");
            }
            is_told = true;
            // Servers that went away together do not come back together.
            let varied = rest.mul_f64(0.5 + fastrand::f64() / 2.0);
            let _ = self.unless_stopped(sleep(varied)).await;
            rest = (rest * 2).min(LONGEST_REST);
        }
    }

    /// One connection from its beginning to its end. It ends well only because it is told to.
    async fn connection(&self) -> Result<(), ConnectionError> {
        let listener = Listener::default();
        let begin = Box::pin(timeout(BEGIN_WITHIN, self.begin(listener.clone())));
        let Some(begun) = self.unless_stopped(begin).await else { return Ok(()) };
        let connection = begun??;
        let (peer, end) = (connection.peer().clone(), connection.cancellation_token());
        self.server.connect(Some(peer.clone()));
        self.server.tried.send_replace(true);
        let mut waiting = pin!(connection.waiting());
        let ended = self.attend(&peer, &listener, waiting.as_mut()).await;
        self.server.connect(None);
        end.cancel();
        if !matches!(ended, Err(ConnectionError::Closed)) {
            let _ = timeout(END_WITHIN, waiting).await;
        }
        ended
    }

    async fn begin(&self, listener: Listener) -> Result<Connection, ConnectionError> {
        let connection = connect(self.server.settings(), listener, &self.tasks).await?;
        self.read_list(connection.peer()).await?;
        Ok(connection)
    }

    /// Hears what the server tells, and asks it now and then whether it is there.
    async fn attend(
        &self,
        peer: &Peer<RoleClient>,
        listener: &Listener,
        mut ended: Pin<&mut impl Future>,
    ) -> Result<(), ConnectionError> {
        let mut pings = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
        loop {
            let is_doubted = tokio::select! {
                _ = ended.as_mut() => return Err(ConnectionError::Closed),
                () = self.stop.cancelled() => return Ok(()),
                () = listener.list_changed.notified() => false,
                () = self.server.doubted.notified() => true,
                _ = pings.tick() => true,
            };
            let asked = async {
                if !is_doubted {
                    self.read_list(peer).await?;
                    sleep(READ_EVERY).await;
                } else if self.server.is_idle() {
                    ping(peer).await?;
                }
                Ok::<(), ConnectionError>(())
            };
            if let Some(asked) = self.unless_stopped(timeout(BEGIN_WITHIN, asked)).await {
                asked??;
            }
        }
    }

    /// Puts the server's tools into the registry as they are now.
    async fn read_list(&self, peer: &Peer<RoleClient>) -> Result<(), ConnectionError> {
        let tools = offered(&self.server, list(peer).await?);
        let (count, name) = (tools.len(), &self.server.settings().name);
        match self.registry.serve(name, tools) {
            Ok(changes) => {
                self.server.list(count, changes.as_ref().is_some_and(ListChanges::are_any));
                self.tell(count, changes);
            }
            Err(error) => {
                tracing::error!(mcp.server = %name, %error, "its tools cannot be offered");
            }
        }
        Ok(())
    }

    fn tell(&self, count: usize, changes: Option<ListChanges>) {
        let name = &self.server.settings().name;
        match changes {
            None => tracing::info!(mcp.server = %name, tools = count, "a tool server is connected"),
            Some(changes) if changes.are_any() => {
                let ListChanges { added, removed, altered } = changes;
                tracing::warn!(
                    mcp.server = %name, ?added, ?removed, ?altered,
                    "a tool server has other tools than before; sessions keep those they have"
                );
            }
            Some(_) => tracing::info!(mcp.server = %name, tools = count, "its tools are the same"),
        }
    }

    async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            () = self.stop.cancelled() => None,
            done = work => Some(done),
        }
    }
}
