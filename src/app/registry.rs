//! The tool registry: built-in tools and tools of MCP servers.

use std::sync::Arc;

use rustix::process::geteuid;

use crate::tools::mcp::{ServerSettings, ServerTransport, ToolServers};
use crate::tools::{Registry, Tool};

/// Registers the tools and starts to connect the servers. Waits for a limited time until each
/// server has answered.
pub(super) async fn open_registry(
    tools: Vec<Arc<dyn Tool>>,
    servers: Vec<ServerSettings>,
) -> anyhow::Result<(Arc<Registry>, Arc<ToolServers>)> {
    warn_about_root(&servers);
    let registry = Arc::new(Registry::new(tools)?);
    let servers = ToolServers::start(servers, &registry);
    servers.wait_for_first_attempts().await;
    Ok((registry, Arc::new(servers)))
}

/// Warns about programs that can read the memory of the service, because both run as root.
fn warn_about_root(servers: &[ServerSettings]) {
    if !geteuid().is_root() {
        return;
    }
    for ServerSettings { name, transport, .. } in servers {
        if matches!(transport, ServerTransport::Program(program) if program.user.is_none()) {
            tracing::warn!(
                mcp.server = %name,
                "program of a tool server runs as root and can read the secrets of the service: \
                 name another user as its `user`, or run the service as another user"
            );
        }
    }
}
