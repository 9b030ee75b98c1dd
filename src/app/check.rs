//! The checks of a configuration that a process makes at its start, without starting anything.

use std::sync::Arc;

use sqlx::postgres::PgConnectOptions;

use super::database::Pools;
use super::listening::{Shared, check_agents};
use super::model::check_models;
use crate::bus::Bus;
use crate::config::{Config, Listen};
use crate::metrics::Metrics;
use crate::store::PoolSizes;
use crate::tools::Registry;

/// Checks everything that `serve` refuses at its start, except what depends on other programs: the
/// database, the sandbox, tool servers and the addresses.
pub async fn check(config: Config) -> anyhow::Result<()> {
    let registry = Registry::new(config.tools)?;
    for server in &config.tool_servers {
        registry.expect_server(&server.name);
    }
    if let Some(work) = &config.work {
        check_models(&work.model, &work.providers)?;
    }
    let Listen::Api(serve) = config.listen else { return Ok(()) };
    // No connection is opened: the agents are in files.
    let pools = Pools::of(&PgConnectOptions::new(), PoolSizes::default());
    let (bus, registry) = (Arc::new(Bus::default()), Arc::new(registry));
    let permissions = Arc::new(config.permissions);
    let shared = Shared::new(&pools, &bus, registry, permissions, &config.workspaces);
    let service =
        shared.into_service(pools.admission.clone(), Arc::new(Metrics::new()), serve.service);
    check_agents(&service).await
}
