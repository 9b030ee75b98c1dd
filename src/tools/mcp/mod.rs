//! The client of MCP (Model Context Protocol) servers. Only the operator configures servers; a
//! session or a workspace cannot add one.
//!
//! All data from a server is untrusted. Tool definitions are validated and bounded, and their
//! invisible characters are escaped. The hint that a tool only reads counts only if the operator
//! trusts the server. A failure of a server becomes the result of a call and never fails a run.

mod connection;
mod content;
mod failure;
mod flood_guard;
mod lines;
mod names;
mod program;
mod server;
mod settings;
mod supervisor;
mod tool;
mod tool_list;
mod watchdog;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use rmcp::model::JsonObject;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::registry::Registry;
use crate::domain::tool_server::ToolServerReport;
use content::output_of;
pub(in crate::tools) use failure::ServerCallFailure;
pub use names::is_server_name;
pub(in crate::tools) use names::prefix;
use server::Server;
pub use settings::{Program, ServerSettings, ServerTransport, UserIds};
use supervisor::Supervisor;

/// Maximum time that a starting process waits for its servers. Slower servers connect later.
const FIRST_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of stopping all servers.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// The MCP servers of a process. Dropping this stops them.
#[derive(Debug, Default)]
pub struct ToolServers {
    servers: Vec<Arc<Server>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl ToolServers {
    /// Starts to connect to all servers. Their tools enter the registry when they connect.
    pub fn start(all: Vec<ServerSettings>, registry: &Arc<Registry>) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let mut servers = Vec::new();
        for settings in all {
            registry.expect_server(&settings.name);
            let server = Arc::new(Server::new(settings));
            let (registry, tasks) = (Arc::clone(registry), tasks.clone());
            let (supervised, stop) = (Arc::clone(&server), stop.clone());
            let supervisor =
                Supervisor { server: supervised, registry, tasks: tasks.clone(), stop };
            tasks.spawn(supervisor.run());
            servers.push(server);
        }
        Self { servers, tasks, stop }
    }

    /// Waits, for a limited time, until the first connection attempt to each server has ended.
    pub async fn wait_for_first_attempts(&self) {
        let tried = self.servers.iter().map(|server| {
            let mut tried = server.tried.subscribe();
            async move { tried.wait_for(|is_tried| *is_tried).await.is_ok() }
        });
        if timeout(FIRST_CONNECT_TIMEOUT, join_all(tried)).await.is_err() {
            tracing::warn!("tool servers not connected in time; connecting continues");
        }
    }

    /// Returns the state of each server.
    pub fn reports(&self) -> Vec<ToolServerReport> {
        self.servers.iter().map(|server| server.report()).collect()
    }

    /// Calls a tool by the name that the server gives it. Returns the text of the result, and
    /// `true` if the result is an error.
    pub(in crate::tools) async fn call_tool(
        &self,
        server: &str,
        tool: &str,
        arguments: JsonObject,
        time_limit: Duration,
    ) -> Result<(String, bool), ServerCallFailure> {
        let found = self.servers.iter().find(|known| known.settings().name == server);
        let result = found
            .ok_or(ServerCallFailure::NotConnected)?
            .call_tool(tool, arguments, time_limit)
            .await?;
        Ok((output_of(&result).text, result.is_error == Some(true)))
    }

    /// Closes all connections and stops all programs.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(STOP_TIMEOUT, self.tasks.wait()).await.is_err() {
            tracing::warn!("tool servers not stopped in time");
        }
    }
}

impl Drop for ToolServers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
