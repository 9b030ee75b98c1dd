//! Servers of tools that speak the Model Context Protocol. The operator names them, and nobody
//! else: nothing of a session or a workspace adds one.
//!
//! What a server says is data. Its tools are checked, bounded and shown with all that is hidden in
//! them; its word that a tool only reads counts if the operator trusts it; and whatever it does
//! wrong is the result of a call, never the end of a run.

mod connection;
mod content;
mod failure;
mod guard;
mod keeper;
mod leash;
mod lines;
mod names;
mod offer;
mod program;
mod server;
mod settings;
mod tool;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use rmcp::model::JsonObject;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Registry;
use crate::domain::tool_server::ToolServerReport;
use content::text_of;
pub(in crate::tools) use failure::AskFailure;
use keeper::Keeper;
pub use names::is_server_name;
pub(in crate::tools) use names::prefix;
use server::Server;
pub use settings::{Program, Reach, ServerSettings};

/// How long a process that begins waits for its servers. Those that take longer are there later.
const TRIED_WITHIN: Duration = Duration::from_secs(10);
/// What all of them may take to end.
const STOPPED_WITHIN: Duration = Duration::from_secs(4);

/// The servers of a process. They are let go when this is dropped.
#[derive(Debug, Default)]
pub struct ToolServers {
    servers: Vec<Arc<Server>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl ToolServers {
    /// Begins to connect them all, and puts their tools into the registry as they come.
    pub fn start(all: Vec<ServerSettings>, registry: &Arc<Registry>) -> Self {
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let mut servers = Vec::new();
        for settings in all {
            registry.expect_server(&settings.name);
            let server = Arc::new(Server::new(settings));
            let (registry, tasks) = (Arc::clone(registry), tasks.clone());
            let (server_of_keeper, stop) = (Arc::clone(&server), stop.clone());
            let keeper = Keeper { server: server_of_keeper, registry, tasks: tasks.clone(), stop };
            tasks.spawn(keeper.run());
            servers.push(server);
        }
        Self { servers, tasks, stop }
    }

    /// Waits until each has been tried once, but not for long.
    pub async fn tried(&self) {
        let tried = self.servers.iter().map(|server| {
            let mut tried = server.tried.subscribe();
            async move { tried.wait_for(|is_tried| *is_tried).await.is_ok() }
        });
        if timeout(TRIED_WITHIN, join_all(tried)).await.is_err() {
            tracing::warn!("not all tool servers are connected yet");
        }
    }

    /// How they are doing.
    pub fn reports(&self) -> Vec<ToolServerReport> {
        self.servers.iter().map(|server| server.report()).collect()
    }

    /// What a tool of a server says, by the server's own name of the tool, and whether it says so
    /// as an error.
    pub(in crate::tools) async fn ask(
        &self,
        (server, tool): (&str, &str),
        arguments: JsonObject,
        patience: Duration,
    ) -> Result<(String, bool), AskFailure> {
        let found = self.servers.iter().find(|known| known.settings().name == server);
        let result = found.ok_or(AskFailure::NotConnected)?.ask(tool, arguments, patience).await?;
        Ok((text_of(&result), result.is_error == Some(true)))
    }

    /// Ends all connections and programs.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(STOPPED_WITHIN, self.tasks.wait()).await.is_err() {
            tracing::warn!("not all tool servers ended in time");
        }
    }
}

impl Drop for ToolServers {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
