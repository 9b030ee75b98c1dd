//! `twostep quota`.

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use sqlx::PgConnection;

use super::database::with_database;
use super::output;
use crate::config::{DatabaseArgs, QuotaLimit, quota};
use crate::domain::ids::TenantId;
use crate::domain::quota::{QuotaLimits, QuotaResource, QuotaUse};
use crate::store::quotas::{list_own, list_uses, remove, set};
use crate::store::tenants::find;

#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Tenant whose quotas are shown or changed
    #[arg(long, global = true, default_value = "default", value_name = "NAME")]
    tenant: String,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show what the tenant uses, and its own quotas
    List,
    /// Set a quota, in place of the default of the service. Applies within 5 seconds
    Set {
        /// Limited resource
        #[arg(value_enum)]
        resource: ResourceName,
        /// Maximum number of objects or bytes; `none` for no limit
        #[arg(value_parser = quota)]
        limit: QuotaLimit,
    },
    /// Remove a quota, so that the default of the service applies within 5 seconds
    Remove {
        /// Limited resource
        #[arg(value_enum)]
        resource: ResourceName,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ResourceName {
    /// Sessions, including forks, imports and the sessions of sub-agents
    Sessions,
    /// Bytes of messages, events and agents in the database
    #[value(alias = "stored_bytes")]
    StoredBytes,
    /// Bytes of files in the folders that belong to sessions
    #[value(alias = "workspace_bytes")]
    WorkspaceBytes,
    /// Versions of all agents
    #[value(alias = "agent_versions")]
    AgentVersions,
    /// Webhooks
    Webhooks,
}

impl From<ResourceName> for QuotaResource {
    fn from(name: ResourceName) -> Self {
        match name {
            ResourceName::Sessions => Self::Sessions,
            ResourceName::StoredBytes => Self::StoredBytes,
            ResourceName::WorkspaceBytes => Self::WorkspaceBytes,
            ResourceName::AgentVersions => Self::AgentVersions,
            ResourceName::Webhooks => Self::Webhooks,
        }
    }
}

impl Command {
    /// Runs the command. It may run while the service runs, also on the private database.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let Self { database, tenant, action } = self;
        with_database(database, "twostep quota", async |conn| act(conn, &tenant, action).await)
            .await
    }
}

async fn act(conn: &mut PgConnection, tenant: &str, action: Action) -> anyhow::Result<()> {
    let Some(id) = find(conn, tenant).await? else { bail!("tenant {tenant:?} does not exist") };
    match action {
        Action::List => {}
        Action::Set { resource, limit: QuotaLimit(limit) } => {
            let resource: QuotaResource = resource.into();
            resource.check_limit(limit).map_err(anyhow::Error::msg)?;
            set(conn, id, resource, limit).await?;
        }
        Action::Remove { resource } => {
            let resource: QuotaResource = resource.into();
            if !remove(conn, id, resource).await? {
                bail!("tenant {tenant:?} has no quota of its own for {}", resource.as_str());
            }
        }
    }
    show(conn, id).await
}

/// Prints one line per resource.
async fn show(conn: &mut PgConnection, tenant: TenantId) -> anyhow::Result<()> {
    let own = list_own(conn, tenant).await?;
    for QuotaUse { resource, used, .. } in list_uses(conn, tenant, QuotaLimits::default()).await? {
        let used = used.map_or_else(|| "not measured".to_owned(), |used| format!("{used} used"));
        let limit = match own.iter().find(|(of, _)| *of == resource) {
            Some((_, Some(limit))) => format!("quota {limit}"),
            Some((_, None)) => "no limit".to_owned(),
            None => "default of the service".to_owned(),
        };
        output::print_line(&format!("{}: {used}, {limit}", resource.as_str()));
    }
    Ok(())
}
