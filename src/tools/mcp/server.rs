//! One server: who asks it, and how it is doing.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject};
use rmcp::service::{Peer, RoleClient};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::failure::{AskFailure, bounded};
use super::settings::ServerSettings;
use crate::domain::tool_server::{ServedCall, ToolServerReport};
use crate::model::upstream::{Breaker, Endurance, Verdict};

/// Failures in a row after which a server is left alone for half a minute.
const ENDURANCE: Endurance = Endurance {
    failures: 5,
    first_rest: Duration::from_secs(30),
    longest_rest: Duration::from_secs(30),
};
/// How long a call waits for a server that is being connected again, but never more than half of
/// its own time.
const CONNECTED_WITHIN: Duration = Duration::from_secs(3);

/// A server of tools.
#[derive(Debug)]
pub(super) struct Server {
    settings: ServerSettings,
    peer: watch::Sender<Option<Peer<RoleClient>>>,
    breaker: Breaker,
    /// Fires when a call says that something may be wrong with the connection.
    pub(super) doubted: Notify,
    /// Whether it was tried to connect, with or without success.
    pub(super) tried: watch::Sender<bool>,
    /// Calls on their way.
    asking: AtomicUsize,
    tools: AtomicUsize,
    list_changes: AtomicU64,
    calls: [AtomicU64; ServedCall::ALL.len()],
}

impl Server {
    pub(super) fn new(settings: ServerSettings) -> Self {
        Self {
            settings,
            peer: watch::channel(None).0,
            breaker: Breaker::new(ENDURANCE),
            doubted: Notify::new(),
            tried: watch::channel(false).0,
            asking: AtomicUsize::new(0),
            tools: AtomicUsize::new(0),
            list_changes: AtomicU64::new(0),
            calls: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    pub(super) const fn settings(&self) -> &ServerSettings {
        &self.settings
    }

    /// Calls a tool by the server's own name of it. A caller that does not wait to the end is told
    /// to the server as a cancelled request.
    pub(super) async fn ask(
        &self,
        tool: &str,
        arguments: JsonObject,
        patience: Duration,
    ) -> Result<CallToolResult, AskFailure> {
        let asked = self.asked(tool, arguments, patience).await;
        let outcome = match &asked {
            Ok(result) if result.is_error == Some(true) => ServedCall::Failed,
            Ok(_) => ServedCall::Answered,
            Err(failure) => failure.outcome(),
        };
        self.count(outcome);
        if asked.is_err() {
            let (server, outcome) = (&self.settings.name, outcome.as_str());
            tracing::warn!(mcp.server = %server, tool.name = %tool, outcome, "a call got no result");
        }
        asked
    }

    async fn asked(
        &self,
        tool: &str,
        arguments: JsonObject,
        patience: Duration,
    ) -> Result<CallToolResult, AskFailure> {
        let now = Instant::now();
        let mut pass = self.breaker.enter(now).map_err(|until| {
            let rest = until.map_or(1, |until| until.duration_since(now).as_secs().max(1));
            AskFailure::LeftAlone(rest)
        })?;
        let sent = async {
            let peer = self.connected(patience / 2).await.ok_or(AskFailure::NotConnected)?;
            let _asking = Asking::begin(&self.asking);
            let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
            match peer.call_tool_once(call).await {
                Ok(CallToolResponse::Complete(result)) => Ok(result),
                Ok(_) => Err(AskFailure::Asks),
                Err(error) => {
                    let (server, error_text) = (&self.settings.name, bounded(&error.to_string()));
                    tracing::debug!(mcp.server = %server, error = %error_text, "a call failed");
                    Err(AskFailure::of(&error))
                }
            }
        };
        let asked = timeout(patience, sent).await.unwrap_or(Err(AskFailure::TimedOut(patience)));
        let verdict = asked.as_ref().map_or_else(AskFailure::verdict, |_| Some(Verdict::Well));
        if let Some(verdict) = verdict {
            pass.tell(verdict, Instant::now());
        }
        if verdict != Some(Verdict::Well) {
            self.doubted.notify_one();
        }
        asked
    }

    /// The other side, as soon as there is a connection.
    async fn connected(&self, most: Duration) -> Option<Peer<RoleClient>> {
        let mut peer = self.peer.subscribe();
        let found =
            timeout(CONNECTED_WITHIN.min(most), peer.wait_for(Option::is_some)).await.ok()?.ok()?;
        found.clone()
    }

    /// Notes that there is a connection, or none.
    pub(super) fn connect(&self, peer: Option<Peer<RoleClient>>) {
        self.peer.send_replace(peer);
    }

    /// Whether nobody waits for an answer, so that silence is a sign of something else than work.
    pub(super) fn is_idle(&self) -> bool {
        self.asking.load(Ordering::Relaxed) == 0
    }

    /// Notes the list of tools.
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

/// A call that is on its way until this is dropped.
struct Asking<'a>(&'a AtomicUsize);

impl<'a> Asking<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
