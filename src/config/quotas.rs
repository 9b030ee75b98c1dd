//! Default quotas of tenants.

use clap::Args;

use crate::domain::quota::{QuotaLimits, QuotaResource};

/// A limit, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaLimit(pub Option<i64>);

/// Reads the limit of a quota: a number from 0, or `none`.
pub fn quota(text: &str) -> Result<QuotaLimit, String> {
    if text == "none" {
        return Ok(QuotaLimit(None));
    }
    let limit = text.parse().ok().filter(|limit: &i64| *limit >= 0);
    let problem = || format!("{text:?} is neither a number from 0 nor `none`");
    limit.map(|limit| QuotaLimit(Some(limit))).ok_or_else(problem)
}

fn webhook_quota(text: &str) -> Result<QuotaLimit, String> {
    let quota = quota(text)?;
    QuotaResource::Webhooks.check_limit(quota.0)?;
    Ok(quota)
}

fn limit(option: Option<QuotaLimit>) -> Option<i64> {
    option.and_then(|QuotaLimit(limit)| limit)
}

/// Quotas of tenants for which `twostep quota` sets none.
#[derive(Debug, Clone, Args)]
pub struct QuotaArgs {
    /// Maximum number of sessions of a tenant, including forks and sessions of sub-agents
    /// [default: no limit]
    #[arg(long, env = "TWOSTEP_QUOTA_SESSIONS", value_name = "N",
          value_parser = quota)]
    pub quota_sessions: Option<QuotaLimit>,
    /// Maximum size of a tenant's messages, events and agents in the database, in bytes
    /// [default: no limit]
    #[arg(long, env = "TWOSTEP_QUOTA_STORED_BYTES", value_name = "BYTES",
          value_parser = quota)]
    pub quota_stored_bytes: Option<QuotaLimit>,
    /// Maximum size of the files in the folders of a tenant's sessions, in bytes
    /// [default: no limit]
    #[arg(long, env = "TWOSTEP_QUOTA_WORKSPACE_BYTES", value_name = "BYTES",
          value_parser = quota)]
    pub quota_workspace_bytes: Option<QuotaLimit>,
    /// Maximum number of versions of all agents of a tenant [default: no limit]
    #[arg(long, env = "TWOSTEP_QUOTA_AGENT_VERSIONS", value_name = "N",
          value_parser = quota)]
    pub quota_agent_versions: Option<QuotaLimit>,
    /// Maximum number of webhooks of a tenant, at most 20 [default: 20]
    #[arg(long, env = "TWOSTEP_QUOTA_WEBHOOKS", value_name = "N",
          value_parser = webhook_quota)]
    pub quota_webhooks: Option<QuotaLimit>,
}

impl QuotaArgs {
    /// The limits.
    pub(super) fn limits(&self) -> QuotaLimits {
        let mut limits = QuotaLimits::default();
        limits.set(QuotaResource::Sessions, limit(self.quota_sessions));
        limits.set(QuotaResource::StoredBytes, limit(self.quota_stored_bytes));
        limits.set(QuotaResource::WorkspaceBytes, limit(self.quota_workspace_bytes));
        limits.set(QuotaResource::AgentVersions, limit(self.quota_agent_versions));
        limits.set(QuotaResource::Webhooks, limit(self.quota_webhooks));
        limits
    }
}
