//! What of the web tools reach.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use reqwest::Url;
use secrecy::SecretString;

use super::variable;
use crate::outbound::AllowedHosts;
use crate::tools::builtin::{Search, SearchProvider, Web};
use crate::tools::{Tool, endpoints};

/// Where Brave answers.
const BRAVE_URL: &str = "https://api.search.brave.com";
/// The variable that has the key for it.
const SEARCH_KEY: &str = "TWOSTEP_SEARCH_KEY";

/// What of the web tools reach.
#[derive(Debug, Clone, Args)]
pub struct WebArgs {
    /// Hosts whose pages `WebFetch` may read, `host` or `host:port`; `public` for all of the public
    /// network, by https [default: no such tool]
    #[arg(long, env = "TWOSTEP_WEB_HOSTS", value_delimiter = ',', value_name = "HOSTS")]
    pub web_hosts: Option<Vec<String>>,
    /// Who finds pages for `WebSearch` and `web_search` [default: no such tools]
    #[arg(long, env = "TWOSTEP_SEARCH", value_enum, value_name = "SERVICE")]
    pub search: Option<SearchService>,
    /// The server of this service, which may be one of your own network
    /// [default: that of Brave; none of `SearXNG`]
    #[arg(long, env = "TWOSTEP_SEARCH_URL", requires = "search", value_name = "URL")]
    pub search_url: Option<Url>,
    /// Tools that are requests to endpoints of yours: JSON, `{"tools": [...]}`; for all processes
    /// the same
    #[arg(long, env = "TWOSTEP_HTTP_TOOLS", value_name = "FILE")]
    pub http_tools: Option<PathBuf>,
}

/// Who finds pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchService {
    /// A server of `SearXNG` with the format `json` switched on, at --search-url
    Searxng,
    /// Brave; its key is taken from `TWOSTEP_SEARCH_KEY`
    Brave,
}

impl WebArgs {
    /// The way to pages.
    pub(super) fn pages(&self) -> anyhow::Result<Option<Web>> {
        let Some(hosts) = &self.web_hosts else { return Ok(None) };
        let hosts = AllowedHosts::parse(hosts.iter().map(String::as_str));
        let hosts = hosts.context("--web-hosts is not a list of hosts")?;
        Ok(Some(Web::new(hosts).context("pages cannot be asked for")?))
    }

    /// The tools that the operator declares.
    pub(super) fn http_tools(&self) -> anyhow::Result<Vec<Arc<dyn Tool>>> {
        let Some(path) = &self.http_tools else { return Ok(Vec::new()) };
        let place = || format!("the tools in {} cannot be used", path.display());
        let text = fs::read_to_string(path).with_context(place)?;
        endpoints(&text).with_context(place)
    }

    /// Who finds pages.
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
                let key = variable(SEARCH_KEY)
                    .with_context(|| format!("--search brave needs a key: set {SEARCH_KEY}"))?;
                SearchProvider::Brave(url, SecretString::from(key))
            }
        };
        Ok(Some(Search::new(provider).context("pages cannot be searched for")?))
    }
}
