//! The default settings of sessions.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};

use super::args::SessionArgs;
use super::model_providers::ModelProviders;
use super::models::DefaultProvider;
use crate::domain::limits::Limits;
use crate::domain::price::Prices;
use crate::service::{Defaults, OperatorAgents};
use crate::tools::Tool;
use crate::tools::workspace::Roots;

/// The default system prompt of sessions.
pub const DEFAULT_SYSTEM: &str = "You are a helpful assistant with tools that work on the files of \
    one workspace. Use a tool whenever the answer depends on what a file says, on which files \
    there are, or on the current time; never guess these. Call tools that do not depend on each \
    other together. When you have what you need, answer the user's question in your own words: \
    explain what you found instead of repeating raw output, quote only the lines that matter, and \
    say so if a tool failed. Keep answers short, in plain text or simple Markdown.";

/// The default tools of sessions. The list is short because each tool adds input tokens to every
/// request and one more choice for the model.
pub const DEFAULT_TOOLS: [&str; 4] = ["read_file", "write_file", "list_files", "get_time"];

impl SessionArgs {
    /// Checks the options and returns the default settings of sessions.
    pub(super) fn into_defaults(
        self,
        (default, providers): (DefaultProvider, &ModelProviders),
        default_model: Option<&str>,
        tools: &[Arc<dyn Tool>],
    ) -> anyhow::Result<Defaults> {
        let is_known = |name: &String| tools.iter().any(|tool| tool.name() == name);
        if let Some(unknown) = self.default_tools.iter().flatten().find(|name| !is_known(name)) {
            bail!("--default-tools names {unknown:?}, which is not a tool of this service");
        }
        let default_tools =
            || DEFAULT_TOOLS.map(str::to_owned).into_iter().filter(is_known).collect();
        let canonical = |folder: PathBuf| {
            folder
                .canonicalize()
                .with_context(|| format!("the workspace {} cannot be used", folder.display()))
        };
        let roots = self.workspace_roots.into_iter().flatten().map(canonical);
        let roots = roots.collect::<anyhow::Result<Vec<PathBuf>>>()?;
        let workspace = self.shared_workspace.map(|folder| {
            canonical(folder)?
                .into_os_string()
                .into_string()
                .map_err(|path| anyhow::anyhow!("the workspace {} is not UTF-8", path.display()))
        });
        Ok(Defaults {
            model: self
                .model
                .or(default_model.map(str::to_owned))
                .context("no model: set --model, because this provider has no default")?,
            max_tokens: self.max_tokens,
            system: self.system.unwrap_or_else(|| DEFAULT_SYSTEM.to_owned()),
            limits: Limits { rounds: Some(self.max_rounds), ..Limits::default() },
            interrupted_replies: self.interrupted_replies,
            generate_title: self.generate_titles,
            prices: read_prices(self.prices.as_deref(), providers.prices())?.into(),
            workspace: workspace.transpose()?,
            workspace_roots: Roots::new(roots),
            tools: Some(self.default_tools.unwrap_or_else(default_tools)),
            model_rules: self.models.into_rules(default, providers)?,
            agents: self.agents.as_deref().map(read_agents).transpose()?.unwrap_or_default().into(),
        })
    }
}

/// Reads the file of `--prices`, and adds it to the prices of named providers.
pub(super) fn read_prices(path: Option<&Path>, mut prices: Prices) -> anyhow::Result<Prices> {
    let Some(path) = path else { return Ok(prices) };
    let context = || format!("the prices in {} cannot be used", path.display());
    let text = fs::read_to_string(path).with_context(context)?;
    prices.extend(serde_json::from_str::<Prices>(&text).with_context(context)?);
    Ok(prices)
}

pub(super) fn read_agents(folder: &Path) -> anyhow::Result<OperatorAgents> {
    OperatorAgents::read(folder)
        .with_context(|| format!("the agents in {} cannot be used", folder.display()))
}
