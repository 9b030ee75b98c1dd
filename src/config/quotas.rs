//! Default quotas of tenants.

use clap::Args;

use crate::domain::quota::{QuotaLimits, QuotaResource};

/// Quotas of tenants for which `twostep quota` sets none.
#[derive(Debug, Clone, Args)]
pub struct QuotaArgs {
    /// Maximum number of sessions of a tenant, including forks and sessions of sub-agents
    /// [default: no limit]
    #[arg(long, env = "TWOSTEP_QUOTA_SESSIONS", value_name = "N",
          value_parser = clap::value_parser!(i64).range(0..))]
    pub quota_sessions: Option<i64>,
    /// Maximum size of a tenant's messages, events and agents in the database, in bytes
    /// [default: no limit]
    #[arg(long, env = "TWOSTEP_QUOTA_STORED_BYTES", value_name = "BYTES",
          value_parser = clap::value_parser!(i64).range(0..))]
    pub quota_stored_bytes: Option<i64>,
    /// Maximum size of the files in the folders of a tenant's sessions, in bytes
    /// [default: no limit]
    #[arg(long, env = "TWOSTEP_QUOTA_WORKSPACE_BYTES", value_name = "BYTES",
          value_parser = clap::value_parser!(i64).range(0..))]
    pub quota_workspace_bytes: Option<i64>,
    /// Maximum number of versions of all agents of a tenant [default: no limit]
    #[arg(long, env = "TWOSTEP_QUOTA_AGENT_VERSIONS", value_name = "N",
          value_parser = clap::value_parser!(i64).range(0..))]
    pub quota_agent_versions: Option<i64>,
    /// Maximum number of webhooks of a tenant [default: no limit except the fixed one]
    #[arg(long, env = "TWOSTEP_QUOTA_WEBHOOKS", value_name = "N",
          value_parser = clap::value_parser!(i64).range(0..))]
    pub quota_webhooks: Option<i64>,
}

impl QuotaArgs {
    /// The limits.
    pub(super) fn limits(&self) -> QuotaLimits {
        let mut limits = QuotaLimits::default();
        limits.set(QuotaResource::Sessions, self.quota_sessions);
        limits.set(QuotaResource::StoredBytes, self.quota_stored_bytes);
        limits.set(QuotaResource::WorkspaceBytes, self.quota_workspace_bytes);
        limits.set(QuotaResource::AgentVersions, self.quota_agent_versions);
        limits.set(QuotaResource::Webhooks, self.quota_webhooks);
        limits
    }
}
