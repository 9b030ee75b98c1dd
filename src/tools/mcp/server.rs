//! One MCP server: its calls, circuit breaker and counters.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject};
use rmcp::service::{Peer, RoleClient};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::failure::{ServerCallFailure, bounded};
use super::settings::ServerSettings;
use crate::domain::tool_server::{ServedCall, ToolServerReport};
use crate::model::server_health::{Breaker, BreakerConfig, Health};

/// The circuit breaker opens for 30 seconds after this number of consecutive failures.
const BREAKER_CONFIG: BreakerConfig = BreakerConfig {
    failures: 5,
    first_open: Duration::from_secs(30),
    longest_open: Duration::from_secs(30),
    probe_patience: Duration::from_secs(30),
};
/// Maximum time that a call waits for a reconnecting server. It also waits at most half of its own
/// timeout.
const CONNECT_WAIT: Duration = Duration::from_secs(3);

/// An MCP server.
#[derive(Debug)]
pub(super) struct Server {
    settings: ServerSettings,
    peer: watch::Sender<Option<Peer<RoleClient>>>,
    breaker: Breaker,
    /// Notified when a failed call indicates a broken connection.
    pub(super) connection_suspect: Notify,
    /// `true` after the first connection attempt, successful or not.
    pub(super) tried: watch::Sender<bool>,
    /// Number of calls in progress.
    calls_in_progress: AtomicUsize,
    tools: AtomicUsize,
    list_changes: AtomicU64,
    calls: [AtomicU64; ServedCall::ALL.len()],
}

impl Server {
    pub(super) fn new(settings: ServerSettings) -> Self {
        Self {
            settings,
            peer: watch::channel(None).0,
            breaker: Breaker::new(BREAKER_CONFIG),
            connection_suspect: Notify::new(),
            tried: watch::channel(false).0,
            calls_in_progress: AtomicUsize::new(0),
            tools: AtomicUsize::new(0),
            list_changes: AtomicU64::new(0),
            calls: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    pub(super) const fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// Calls a tool by the name that the server gives it. Dropping the future sends the server
    /// a cancellation of the request.
    pub(super) async fn call_tool(
        &self,
        tool: &str,
        arguments: JsonObject,
        time_limit: Duration,
    ) -> Result<CallToolResult, ServerCallFailure> {
        let result = self.try_call(tool, arguments, time_limit).await;
        let outcome = match &result {
            Ok(output) if output.is_error == Some(true) => ServedCall::Failed,
            Ok(_) => ServedCall::Answered,
            Err(failure) => failure.outcome(),
        };
        self.count(outcome);
        if result.is_err() {
            let (server, outcome) = (&self.settings.name, outcome.as_str());
            tracing::warn!(mcp.server = %server, tool.name = %tool, outcome, "tool call failed");
        }
        result
    }

    async fn try_call(
        &self,
        tool: &str,
        arguments: JsonObject,
        time_limit: Duration,
    ) -> Result<CallToolResult, ServerCallFailure> {
        let now = Instant::now();
        let mut pass = self.breaker.enter(now).map_err(|until| {
            let seconds = until.duration_since(now).as_secs().max(1);
            ServerCallFailure::CircuitOpen(seconds)
        })?;
        let sent = async {
            let peer =
                self.connected(time_limit / 2).await.ok_or(ServerCallFailure::NotConnected)?;
            let _in_progress = CallInProgress::begin(&self.calls_in_progress);
            let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
            match peer.call_tool_once(call).await {
                Ok(CallToolResponse::Complete(result)) => Ok(result),
                Ok(_) => Err(ServerCallFailure::InputRequired),
                Err(error) => {
                    let (server, error_text) = (&self.settings.name, bounded(&error.to_string()));
                    tracing::debug!(mcp.server = %server, error = %error_text, "request failed");
                    Err(ServerCallFailure::of(&error))
                }
            }
        };
        let result =
            timeout(time_limit, sent).await.unwrap_or(Err(ServerCallFailure::TimedOut(time_limit)));
        let health =
            result.as_ref().map_or_else(ServerCallFailure::health, |_| Some(Health::Healthy));
        if let Some(health) = health {
            pass.report(health, Instant::now());
        }
        if health != Some(Health::Healthy) {
            self.connection_suspect.notify_one();
        }
        result
    }

    /// Waits for a connection and returns it, or `None` after the timeout.
    async fn connected(&self, time_limit: Duration) -> Option<Peer<RoleClient>> {
        let mut peer = self.peer.subscribe();
        let found = timeout(CONNECT_WAIT.min(time_limit), peer.wait_for(Option::is_some))
            .await
            .ok()?
            .ok()?;
        found.clone()
    }

    /// Stores the current connection, or none.
    pub(super) fn connect(&self, peer: Option<Peer<RoleClient>>) {
        self.peer.send_replace(peer);
    }

    /// Returns `true` if no call is in progress. Only then silence can mean that the server
    /// hangs.
    pub(super) fn is_idle(&self) -> bool {
        self.calls_in_progress.load(Ordering::Relaxed) == 0
    }

    /// Stores the size of the tool list and counts its changes.
    pub(super) fn list(&self, tools: usize, has_changed: bool) {
        self.tools.store(tools, Ordering::Relaxed);
        self.list_changes.fetch_add(u64::from(has_changed), Ordering::Relaxed);
    }

    pub(super) fn report(&self) -> ToolServerReport {
        let calls = ServedCall::ALL.into_iter().zip(&self.calls);
        ToolServerReport {
            name: self.settings.name.clone(),
            is_connected: self.peer.borrow().is_some(),
            circuit: self.breaker.circuit(),
            tools: self.tools.load(Ordering::Relaxed),
            list_changes: self.list_changes.load(Ordering::Relaxed),
            calls: calls.map(|(kind, count)| (kind, count.load(Ordering::Relaxed))).collect(),
        }
    }

    fn count(&self, outcome: ServedCall) {
        let counters = ServedCall::ALL.into_iter().zip(&self.calls);
        for (_, count) in counters.filter(|(kind, _)| *kind == outcome) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A guard that counts a call in progress until it is dropped.
struct CallInProgress<'a>(&'a AtomicUsize);

impl<'a> CallInProgress<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
