//! The permission policy of the operator.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{ArgAction, Args, ValueEnum};
use reqwest::Url;
use secrecy::SecretString;
use serde::Deserialize;

use super::environment::secret;
use crate::domain::permission::{Decision, PermissionMode, Rule};
use crate::tools::policy::{DEFAULT_MAX_LINKS, EvaluatorSource, OperatorPolicy, check};

/// Options for the permissions of tool calls.
#[derive(Debug, Clone, Args)]
pub struct PermissionArgs {
    /// Decision on calls that match no rule, in sessions that do not set their own mode
    #[arg(long, env = "TWOSTEP_PERMISSION_MODE", value_enum, default_value = "accept_edits")]
    pub permission_mode: PermissionMode,
    /// Let sessions use the mode `bypass`, in which every call that matches no rule runs
    #[arg(long, env = "TWOSTEP_ALLOW_BYPASS", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub allow_bypass: bool,
    /// Permission rules that apply before the rules of a session: JSON file, `{"rules": [...]}`
    #[arg(long, alias = "permissions", env = "TWOSTEP_PERMISSION_RULES", value_name = "FILE")]
    pub permission_rules: Option<PathBuf>,
    /// Seconds that a call waits for a decision or a client result
    #[arg(long, env = "TWOSTEP_APPROVAL_TIMEOUT", default_value_t = 3600, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub approval_timeout: u64,
    /// Decision on a call that received no approval in time
    #[arg(long, env = "TWOSTEP_APPROVAL_DEFAULT", value_enum, default_value = "deny")]
    pub approval_default: DefaultDecision,
    /// Evaluator of calls that need an approval: the URL of a service, whose key is read from
    /// `TWOSTEP_PERMISSION_KEY`, or `mcp:server/tool` for a tool of a server in `--mcp` [default: none]
    #[arg(long, env = "TWOSTEP_PERMISSION_URL", value_name = "URL")]
    pub permission_url: Option<Url>,
    /// Seconds that the evaluator has to answer
    #[arg(long, env = "TWOSTEP_PERMISSION_TIMEOUT", default_value_t = 120, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub permission_timeout: u64,
    /// Pages that the user did not name and that `WebFetch` reads without an approval for one message,
    /// after the model has read private data
    #[arg(long, env = "TWOSTEP_MAX_WEB_LINKS", default_value_t = DEFAULT_MAX_LINKS, value_name = "N")]
    pub max_web_links: usize,
}

/// The decision on a call that received no approval in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DefaultDecision {
    /// The call runs.
    Allow,
    /// The call is denied.
    Deny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    rules: Vec<Rule>,
}

impl PermissionArgs {
    /// Reads the rules and returns the operator's policy.
    pub(super) fn into_policy(self) -> anyhow::Result<OperatorPolicy> {
        if self.permission_mode == PermissionMode::Bypass && !self.allow_bypass {
            bail!(
                "--permission-mode bypass also needs --allow-bypass, because it runs every call that \
                 matches no rule"
            );
        }
        Ok(OperatorPolicy {
            rules: self
                .permission_rules
                .as_deref()
                .map(read_rules)
                .transpose()?
                .unwrap_or_default()
                .into(),
            default_mode: self.permission_mode,
            allows_bypass: self.allow_bypass,
            evaluator: self.permission_url.map(source).transpose()?,
            evaluation_timeout: Duration::from_secs(self.permission_timeout),
            answer_within: Duration::from_secs(self.approval_timeout),
            default_answer: match self.approval_default {
                DefaultDecision::Allow => Decision::Allow,
                DefaultDecision::Deny => Decision::Deny,
            },
            max_links: self.max_web_links,
        })
    }
}

/// The evaluator that a URL names: a web service, or a tool of an MCP server.
fn source(url: Url) -> anyhow::Result<EvaluatorSource> {
    match url.scheme() {
        "http" | "https" => {
            let key = secret("TWOSTEP_PERMISSION_KEY")?.map(SecretString::from);
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

pub(super) fn read_rules(path: &Path) -> anyhow::Result<Vec<Rule>> {
    let context = || format!("the permission rules in {} cannot be used", path.display());
    let text = fs::read_to_string(path).with_context(context)?;
    let RuleFile { rules } = serde_json::from_str(&text).with_context(context)?;
    check(&rules).with_context(context)?;
    Ok(rules)
}
