//! What calls may do, and who decides on the others.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{ArgAction, Args, ValueEnum};
use reqwest::Url;
use secrecy::SecretString;
use serde::Deserialize;

use super::variable;
use crate::domain::permission::{Decision, PermissionMode, Rule};
use crate::tools::policy::{EvaluatorSource, OperatorPolicy, check};

/// Who decides on calls.
#[derive(Debug, Clone, Args)]
pub struct PermissionArgs {
    /// What becomes of calls that no rule speaks of, in sessions that do not say it themselves
    #[arg(long, env = "TWOSTEP_PERMISSION_MODE", value_enum, default_value = "accept_edits")]
    pub permission_mode: PermissionMode,
    /// Let sessions say that everything runs that no rule speaks of
    #[arg(long, env = "TWOSTEP_ALLOW_BYPASS", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub allow_bypass: bool,
    /// Rules that are asked before a session's own: JSON, `{"rules": [...]}`
    #[arg(long, env = "TWOSTEP_PERMISSIONS", value_name = "FILE")]
    pub permissions: Option<PathBuf>,
    /// Seconds that a call waits for somebody who decides
    #[arg(long, env = "TWOSTEP_APPROVAL_TIMEOUT", default_value_t = 3600, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub approval_timeout: u64,
    /// What becomes of a call that nobody has decided on by then
    #[arg(long, env = "TWOSTEP_APPROVAL_DEFAULT", value_enum, default_value = "deny")]
    pub approval_default: DefaultDecision,
    /// A service that is asked about calls before people are, or a tool of a server of `--mcp`, as
    /// `mcp:server/tool`; the key of a service is taken from `TWOSTEP_PERMISSION_KEY`
    #[arg(long, env = "TWOSTEP_PERMISSION_URL", value_name = "URL")]
    pub permission_url: Option<Url>,
    /// Seconds that this service may take
    #[arg(long, env = "TWOSTEP_PERMISSION_TIMEOUT", default_value_t = 120, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub permission_timeout: u64,
}

/// What becomes of a call that nobody decides on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DefaultDecision {
    /// It runs.
    Allow,
    /// It does not.
    Deny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    rules: Vec<Rule>,
}

impl PermissionArgs {
    /// The operator's part of every policy.
    pub(super) fn into_policy(self) -> anyhow::Result<OperatorPolicy> {
        if self.permission_mode == PermissionMode::Bypass && !self.allow_bypass {
            bail!("--permission-mode bypass lets everything run: say --allow-bypass as well");
        }
        Ok(OperatorPolicy {
            rules: self.permissions.as_deref().map(read_rules).transpose()?.unwrap_or_default(),
            default_mode: self.permission_mode,
            allows_bypass: self.allow_bypass,
            evaluator: self.permission_url.map(source).transpose()?,
            evaluation_timeout: Duration::from_secs(self.permission_timeout),
            answer_within: Duration::from_secs(self.approval_timeout),
            default_answer: match self.approval_default {
                DefaultDecision::Allow => Decision::Allow,
                DefaultDecision::Deny => Decision::Deny,
            },
        })
    }
}

/// Who is asked: a web server, or a tool of a tool server.
fn source(url: Url) -> anyhow::Result<EvaluatorSource> {
    match url.scheme() {
        "http" | "https" => {
            let key = variable("TWOSTEP_PERMISSION_KEY").map(SecretString::from);
            Ok(EvaluatorSource::Http { url, key })
        }
        "mcp" if url.cannot_be_a_base() && url.query().is_none() && url.fragment().is_none() => {
            let (server, tool) =
                url.path().split_once('/').context("--permission-url is not mcp:server/tool")?;
            Ok(EvaluatorSource::Tool { server: server.to_owned(), tool: tool.to_owned() })
        }
        _ => bail!("--permission-url {url} is neither the URL of a web server nor mcp:server/tool"),
    }
}

fn read_rules(path: &Path) -> anyhow::Result<Vec<Rule>> {
    let place = || format!("the permissions in {} cannot be used", path.display());
    let text = fs::read_to_string(path).with_context(place)?;
    let RuleFile { rules } = serde_json::from_str(&text).with_context(place)?;
    check(&rules).with_context(place)?;
    Ok(rules)
}
