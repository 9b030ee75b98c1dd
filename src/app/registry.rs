//! The tool registry: built-in tools and tools of MCP servers.

use std::sync::Arc;

use crate::tools::mcp::{ServerSettings, ToolServers};
use crate::tools::{Registry, Tool};

/// Registers the tools and starts to connect the servers. Waits for a limited time until each
/// server has answered.
pub(super) async fn open_registry(
    tools: Vec<Arc<dyn Tool>>,
    servers: Vec<ServerSettings>,
) -> anyhow::Result<(Arc<Registry>, Arc<ToolServers>)> {
    let registry = Arc::new(Registry::new(tools)?);
    let servers = ToolServers::start(servers, &registry);
    servers.wait_for_first_attempts().await;
    Ok((registry, Arc::new(servers)))
}
