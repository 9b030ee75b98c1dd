//! The tools of the process: its own, and those of servers.

use std::sync::Arc;

use crate::tools::mcp::{ServerSettings, ToolServers};
use crate::tools::{Registry, Tool};

/// Takes the tools, and begins to connect the servers; waits for these, but not for long.
pub(super) async fn open_registry(
    tools: Vec<Arc<dyn Tool>>,
    servers: Vec<ServerSettings>,
) -> anyhow::Result<(Arc<Registry>, Arc<ToolServers>)> {
    let registry = Arc::new(Registry::new(tools)?);
    let servers = ToolServers::start(servers, &registry);
    servers.wait_for_first_attempts().await;
    Ok((registry, Arc::new(servers)))
}
