//! The model features that sessions may use.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{ArgAction, Args};

use super::model_providers::ModelProviders;
use crate::domain::model::{Known, Models, ProviderModels};
use crate::domain::provider::Provider;
use crate::domain::server_tool::ServerTool;
use crate::service::{MIN_COMPACT_AT, ModelRules, is_beta};

/// Options for the model features that sessions may use.
#[derive(Debug, Clone, Args)]
pub struct ModelArgs {
    /// Capabilities of models that differ from the built-in ones: JSON file, by model
    #[arg(long, env = "TWOSTEP_CAPABILITIES", value_name = "FILE")]
    pub capabilities: Option<PathBuf>,
    /// Read the list of models and their capabilities from the model's server, at startup and every
    /// hour
    #[arg(long, env = "TWOSTEP_REFRESH_MODELS", default_value = "true",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub refresh_models: bool,
    /// Server tools (executed by the provider) that sessions may use: `web_search`, `web_fetch`,
    /// `code_execution`, or a dated type such as `web_search_20250305` [default: none]
    #[arg(long, env = "TWOSTEP_SERVER_TOOLS", value_delimiter = ',', value_name = "NAMES")]
    pub server_tools: Option<Vec<String>>,
    /// Beta features of the Messages API that sessions may enable [default: any]
    #[arg(long, env = "TWOSTEP_BETAS", value_delimiter = ',', value_name = "NAMES")]
    pub betas: Option<Vec<String>>,
    /// Number of input tokens from which the history of a session is compacted before a run;
    /// 0 for never [default: 80% of the model's context window, if known]
    #[arg(long, env = "TWOSTEP_COMPACT_AT", value_name = "TOKENS", value_parser = compact_at)]
    pub compact_at: Option<i64>,
}

fn compact_at(text: &str) -> Result<i64, String> {
    let tokens: i64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let fits = tokens == 0 || tokens >= MIN_COMPACT_AT;
    fits.then_some(tokens).ok_or_else(|| format!("must be 0 or at least {MIN_COMPACT_AT}"))
}

/// The default provider of a service.
#[derive(Debug, Clone, Copy)]
pub(super) struct DefaultProvider {
    /// The protocol of its server.
    pub(super) protocol: Provider,
    /// True if the server refuses output schemas with optional members.
    pub(super) refuses_optional: bool,
}

impl ModelArgs {
    /// Checks the options and returns the rules.
    pub(super) fn into_rules(
        self,
        default: DefaultProvider,
        providers: &ModelProviders,
    ) -> anyhow::Result<ModelRules> {
        let operators = self.capabilities.as_deref().map(read).transpose()?.unwrap_or_default();
        let words = self.server_tools.unwrap_or_default();
        let tools = words.iter().map(|word| word.parse::<ServerTool>());
        let server_tools: Vec<ServerTool> =
            tools.collect::<Result<_, _>>().context("--server-tools names an unknown tool")?;
        for (index, tool) in server_tools.iter().enumerate() {
            if server_tools.iter().take(index).any(|before| before.name() == tool.name()) {
                bail!("--server-tools names {} twice", tool.name());
            }
        }
        if let Some(odd) = self.betas.iter().flatten().find(|name| !is_beta(name)) {
            bail!("--betas names {odd:?}, which is not the name of a beta feature");
        }
        let DefaultProvider { protocol, refuses_optional } = default;
        let default = ProviderModels::new(protocol, operators);
        let default = default.with_optional_refused(refuses_optional);
        let models = Arc::new(Models::of(default, providers.models()));
        let (betas, compact_at) = (self.betas, self.compact_at);
        Ok(ModelRules { models, server_tools, betas, compact_at })
    }
}

fn read(path: &Path) -> anyhow::Result<Known> {
    let context = || format!("the capabilities in {} cannot be used", path.display());
    let text = fs::read_to_string(path).with_context(context)?;
    serde_json::from_str(&text).with_context(context)
}
