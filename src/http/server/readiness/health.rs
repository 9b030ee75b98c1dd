//! The state that `/readyz` and `/metrics` report on.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::database::DatabaseProbe;
use super::folder::FolderProbe;
use crate::http::auth::MetricsAccess;
use crate::metrics::Metrics;
use crate::store::connections::Connections;
use crate::tools::lease::LeaseClock;
use crate::tools::mcp::ToolServers;
use sandbox::Level;

/// The state of the process that readiness checks and metrics report on.
#[derive(Debug, Clone)]
pub struct Health {
    /// The pool for queries that belong to no tenant.
    pub pool: Connections,
    /// Fires when the process begins to stop.
    pub draining: CancellationToken,
    /// The counters of this process.
    pub metrics: Arc<Metrics>,
    /// Serves `/metrics` here; false if `/metrics` has an address of its own.
    pub serves_metrics: bool,
    /// The callers that may read `/metrics` here.
    pub metrics_access: MetricsAccess,
    /// The sandbox level of model-run commands, if the process runs any.
    pub sandbox: Option<Level>,
    /// The lease clock of the worker, if the process has one.
    pub worker: Option<LeaseClock>,
    /// The check of the workspaces, if the process executes runs.
    pub workspaces: Option<FolderProbe>,
    /// The checks of the database.
    pub database: DatabaseProbe,
    /// The MCP tool servers.
    pub tool_servers: Arc<ToolServers>,
}
