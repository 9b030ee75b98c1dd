//! Listing agents: those of the tenant, of the operator and of the service, by name.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::shared;
use super::shared_agent::SharedAgent;
use crate::domain::agent::{AgentName, AgentSource};
use crate::domain::ids::TenantId;
use crate::domain::page::Slice;
use crate::service::error::Error;
use crate::service::paging::{ListPage, PageRequest};
use crate::service::state::Service;
use crate::store::agents::{AgentSummaryRow, list};

/// An agent in a list.
#[derive(Debug, Clone)]
pub(crate) struct AgentEntry {
    /// The name.
    pub(crate) name: AgentName,
    /// The newest version.
    pub(crate) version: i32,
    /// The owner of the agent.
    pub(crate) source: AgentSource,
    /// The purpose of the agent.
    pub(crate) description: Option<String>,
    /// The time when the version was created; none for an agent from a file.
    pub(crate) created_at: Option<Timestamp>,
}

type Entries = BTreeMap<AgentName, AgentEntry>;

/// Lists the agents that sessions of the tenant may be created from. An agent of the tenant hides a
/// shared one of the same name.
pub(crate) async fn list_agents(
    service: &Service,
    tenant: TenantId,
    request: PageRequest<AgentName>,
) -> Result<ListPage<AgentEntry, AgentName>, Error> {
    let own = service.pool.with(tenant, async |conn| list(conn, tenant).await).await?;
    let entries = merge(service, own);
    let read = read(&entries, &request.slice());
    let mut page = request.page(read, |agent| agent.name.clone());
    if let Some(slice) = page.slice_before() {
        page.set_has_previous(!self::read(&entries, &slice).is_empty());
    }
    Ok(page)
}

/// All agents of a tenant that has these of its own. There are at most a few hundred, so they are
/// merged for every page.
fn merge(service: &Service, own: Vec<AgentSummaryRow>) -> Entries {
    let agents = service.defaults.agents.current();
    let shared = shared::all(&agents).map(|(name, agent)| {
        let SharedAgent { source, version, ref description, .. } = *agent;
        let (name, description) = (name.clone(), description.clone());
        AgentEntry { name, version, source, description, created_at: None }
    });
    let own = own.into_iter().map(|AgentSummaryRow { name, version, description, updated_at }| {
        let (source, created_at) = (AgentSource::Tenant, Some(updated_at));
        AgentEntry { name, version, source, description, created_at }
    });
    shared.chain(own).map(|agent| (agent.name.clone(), agent)).collect()
}

/// Reads a slice of the entries in the same way as a slice of a table is read.
fn read(entries: &Entries, slice: &Slice<AgentName>) -> Vec<AgentEntry> {
    let limit = usize::try_from(slice.limit).unwrap_or(0);
    let is_after = |name: &AgentName| match &slice.from {
        Some(from) if slice.is_upwards => name > from,
        Some(from) => name < from,
        None => true,
    };
    let found = entries.iter().filter(|(name, _)| is_after(name)).map(|(_, agent)| agent.clone());
    if slice.is_upwards {
        return found.take(limit).collect();
    }
    slice.in_order(found.rev().take(limit).collect())
}
