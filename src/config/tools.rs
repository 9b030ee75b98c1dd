//! The tools of the service and their dependencies.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{ArgAction, Args};
use reqwest::Url;

use super::database::server_of;
use super::environment::secret_option;
use super::tool_servers::read_servers;
use super::web::WebArgs;
use crate::tools::builtin::bash::Bash;
use crate::tools::builtin::{self, FileOptions, OpenMeteo, Options, Records};
#[cfg(feature = "faults")]
use crate::tools::crash_test_tools::tools as crash_test_tools;
use crate::tools::mcp::ServerSettings;
use crate::tools::pdf::Reader;
use crate::tools::policy::{EvaluatorSource, OperatorPolicy};
use crate::tools::{Registry, Tool, TypedTool as _};
use sandbox::{Sandbox, Setting};

/// Options for tools.
#[derive(Debug, Clone, Args)]
pub struct ToolArgs {
    /// Names of the tools that exist in this service [default: all that need no configuration]
    #[arg(
        long,
        alias = "tools",
        env = "TWOSTEP_AVAILABLE_TOOLS",
        value_delimiter = ',',
        value_name = "NAMES"
    )]
    pub available_tools: Option<Vec<String>>,
    /// File tools.
    #[command(flatten)]
    pub files: FileArgs,
    /// MCP servers (Model Context Protocol): JSON file, `{"mcpServers": {...}}`
    #[arg(long, env = "TWOSTEP_MCP", value_name = "FILE")]
    pub mcp: Option<PathBuf>,
    /// Sandbox level of Bash; with `off` the tool does not exist
    #[arg(long, env = "TWOSTEP_BASH", value_enum, default_value = "off", value_name = "LEVEL")]
    pub bash: Setting,
    /// Default timeout of a Bash command, in seconds; a call may set its own
    #[arg(long, env = "TWOSTEP_BASH_TIMEOUT", default_value_t = 120, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..=Bash::MAX_TIMEOUT.as_secs()))]
    pub bash_timeout: u64,
    /// Base URL of the Open-Meteo forecast API, for the weather tools
    #[arg(long, env = "TWOSTEP_WEATHER_URL", default_value = "https://api.open-meteo.com")]
    pub weather_url: Url,
    /// Base URL of the Open-Meteo geocoding API, for the weather tools
    #[arg(
        long,
        env = "TWOSTEP_GEOCODING_URL",
        default_value = "https://geocoding-api.open-meteo.com"
    )]
    pub geocoding_url: Url,
    /// Table that `search_records` searches, such as `public.customers` [default: none, and no such
    /// tool]
    #[arg(long, env = "TWOSTEP_RECORDS_TABLE")]
    pub records_table: Option<String>,
    /// URL of the Postgres server with the table; use a role that can only read the table
    #[arg(long, env = "TWOSTEP_RECORDS_URL", hide_env_values = true)]
    pub records_url: Option<String>,
    /// Columns to search and to return [default: all that the role may read]
    #[arg(long, env = "TWOSTEP_RECORDS_COLUMNS", value_delimiter = ',', value_name = "NAMES")]
    pub records_columns: Option<Vec<String>>,
    /// Web access.
    #[command(flatten)]
    pub web: WebArgs,
}

/// Options for the file tools.
#[derive(Debug, Clone, Args)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct FileArgs {
    /// Send a file part again if the model has read it and it has not changed since
    #[arg(long, env = "TWOSTEP_REPEAT_READS", default_value = "true",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub repeat_reads: bool,
    /// Append a reminder about malicious files to the results of Read and LS
    #[arg(long, env = "TWOSTEP_REMINDERS", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub reminders: bool,
    /// Let `write_file` replace only files that the model has read, as Write does
    #[arg(long, env = "TWOSTEP_READ_BEFORE_WRITE", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub read_before_write: bool,
    /// Repeat an edit with a simpler tool at once if it timed out
    #[arg(long, env = "TWOSTEP_EDIT_FALLBACK", default_value = "false",
          default_missing_value = "true", num_args = 0..=1, action = ArgAction::Set)]
    pub edit_fallback: bool,
}

impl From<FileArgs> for FileOptions {
    fn from(args: FileArgs) -> Self {
        let FileArgs { repeat_reads, reminders, read_before_write, edit_fallback } = args;
        Self { repeat_reads, reminders, read_before_write, edit_fallback }
    }
}

impl ToolArgs {
    /// The dependencies of the built-in tools.
    pub(super) fn options(&self) -> anyhow::Result<Options> {
        let weather = OpenMeteo::new(&self.weather_url, &self.geocoding_url)
            .context("the client for the weather API cannot be created")?;
        Ok(Options {
            files: self.files.clone().into(),
            documents: Reader::default(),
            bash: self.bash(),
            weather: Some(Arc::new(weather)),
            records: self.records()?.map(Arc::new),
            web: self.web.pages()?.map(Arc::new),
            search: self.web.search()?.map(Arc::new),
        })
    }

    /// The MCP servers. The tool that evaluates permissions is withheld from the model.
    pub(super) fn servers(&self, policy: &OperatorPolicy) -> anyhow::Result<Vec<ServerSettings>> {
        let mut servers = self.mcp.as_deref().map(read_servers).transpose()?.unwrap_or_default();
        if let Some(EvaluatorSource::Tool { server, tool }) = &policy.evaluator {
            let found = servers.iter_mut().find(|found| found.name == *server);
            let found = found.with_context(|| {
                format!(
                    "--permission-url names the MCP server {server:?}, which --mcp does not contain"
                )
            })?;
            found.withheld.push(tool.clone());
        }
        Ok(servers)
    }

    fn bash(&self) -> Option<Bash> {
        let is_wanted = self
            .available_tools
            .as_ref()
            .is_none_or(|names| names.iter().any(|name| name == Bash::NAME));
        let sandbox = Sandbox::new(self.bash).filter(|_| is_wanted)?;
        Some(Bash::new(sandbox, Duration::from_secs(self.bash_timeout)))
    }

    fn records(&self) -> anyhow::Result<Option<Records>> {
        let Some(table) = &self.records_table else { return Ok(None) };
        let url = secret_option(self.records_url.as_deref(), "TWOSTEP_RECORDS_URL")?
            .context("--records-table needs --records-url, the server of the table")?;
        let database =
            server_of(&url)?.context("--records-url is not the URL of a Postgres server")?;
        Ok(Some(Records::new(database, table.clone(), self.records_columns.clone())))
    }

    /// The tools, in the order in which the model sees them.
    pub(super) fn into_tools(self, options: &Options) -> anyhow::Result<Vec<Arc<dyn Tool>>> {
        let mut tools = builtin::all(options);
        let declared = self.web.http_tools()?;
        if let (Some(path), false) = (&self.web.http_tools, declared.is_empty()) {
            tools.extend(declared);
            // Two of the tools may have the same name, and a definition may be invalid.
            Registry::new(tools.clone())
                .with_context(|| format!("the tools in {} cannot be used", path.display()))?;
        }
        if let Some(names) = &self.available_tools {
            let is_known = |name: &&String| tools.iter().any(|tool| tool.name() == name.as_str());
            if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
                bail!(
                    "--available-tools names {unknown:?}, which is not a tool or needs configuration"
                );
            }
            tools.retain(|tool| names.iter().any(|name| name == tool.name()));
        }
        tools.extend(crash_test_tools());
        Ok(tools)
    }
}

#[cfg(not(feature = "faults"))]
fn crash_test_tools() -> Vec<Arc<dyn Tool>> {
    Vec::new()
}
