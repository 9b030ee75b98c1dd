//! Web access of tools.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use reqwest::Url;
use secrecy::SecretString;

use super::environment::secret;
use crate::outbound::AllowedHosts;
use crate::tools::builtin::{Search, SearchProvider, Web};
use crate::tools::{Tool, endpoints};

/// The base URL of Brave Search.
const BRAVE_URL: &str = "https://api.search.brave.com";
/// The environment variable with the key of Brave Search.
const SEARCH_KEY: &str = "TWOSTEP_SEARCH_KEY";

/// Options for the web access of tools.
#[derive(Debug, Clone, Args)]
pub struct WebArgs {
    /// Hosts whose pages `WebFetch` may read, `host` or `host:port`; `public` allows all hosts of the
    /// public internet by https [default: none, and no `WebFetch`]
    #[arg(long, env = "TWOSTEP_WEB_HOSTS", value_delimiter = ',', value_name = "HOSTS")]
    pub web_hosts: Option<Vec<String>>,
    /// Search service for `WebSearch` and `web_search` [default: none, and no such tools]
    #[arg(long, env = "TWOSTEP_SEARCH", value_enum, value_name = "SERVICE")]
    pub search: Option<SearchService>,
    /// Base URL of the search service; it may be in the private network
    /// [default: Brave's own; required for `SearXNG`]
    #[arg(long, env = "TWOSTEP_SEARCH_URL", requires = "search", value_name = "URL")]
    pub search_url: Option<Url>,
    /// Tools that call HTTP endpoints of the operator: JSON file, `{"tools": [...]}`; must be the same
    /// for all processes
    #[arg(long, env = "TWOSTEP_HTTP_TOOLS", value_name = "FILE")]
    pub http_tools: Option<PathBuf>,
}

/// A search service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchService {
    /// A `SearXNG` server with the format `json` enabled, at --search-url
    Searxng,
    /// Brave Search; the key is read from `TWOSTEP_SEARCH_KEY`
    Brave,
}

impl WebArgs {
    /// The fetcher of web pages, if hosts are allowed.
    pub(super) fn pages(&self) -> anyhow::Result<Option<Web>> {
        let Some(hosts) = &self.web_hosts else { return Ok(None) };
        let hosts = AllowedHosts::parse(hosts.iter().map(String::as_str));
        let hosts = hosts.context("--web-hosts is not a list of hosts")?;
        Ok(Some(Web::new(hosts).context("the client for web pages cannot be created")?))
    }

    /// The tools that the operator declares as HTTP endpoints.
    pub(super) fn http_tools(&self) -> anyhow::Result<Vec<Arc<dyn Tool>>> {
        let Some(path) = &self.http_tools else { return Ok(Vec::new()) };
        let context = || format!("the tools in {} cannot be used", path.display());
        let text = fs::read_to_string(path).with_context(context)?;
        endpoints(&text).with_context(context)
    }

    /// The search service, if one is configured.
    pub(super) fn search(&self) -> anyhow::Result<Option<Search>> {
        let Some(service) = self.search else { return Ok(None) };
        if let Some(url) = &self.search_url
            && !matches!(url.scheme(), "http" | "https")
        {
            bail!("--search-url {url} is not the URL of a web server");
        }
        let provider = match (service, self.search_url.clone()) {
            (SearchService::Searxng, Some(url)) => SearchProvider::Searxng(url),
            (SearchService::Searxng, None) => bail!("--search searxng needs --search-url"),
            (SearchService::Brave, url) => {
                let url = url.map_or_else(|| BRAVE_URL.parse(), Ok)?;
                let key = secret(SEARCH_KEY)?
                    .with_context(|| format!("--search brave needs a key: set {SEARCH_KEY}"))?;
                SearchProvider::Brave(url, SecretString::from(key))
            }
        };
        Ok(Some(
            Search::new(provider).context("the client for the search service cannot be created")?,
        ))
    }
}
