//! Who finds pages: a server of `SearXNG`, or Brave.

mod brave;
mod domains;
mod searxng;

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Url};
use secrecy::SecretString;
use serde::Serialize;

use crate::outbound::read_body;
use crate::tools::ToolError;
pub(in crate::tools::builtin) use domains::Domains;
use html_to_markdown::collapse_whitespace;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of an answer that are read.
const MAX_ANSWER: usize = 2 * 1024 * 1024;
/// Bytes of a query; Brave takes no longer ones.
const MAX_QUERY: usize = 400;
/// Bytes of what is told of a page.
const MAX_TITLE: usize = 300;
const MAX_URL: usize = 2000;
const MAX_SNIPPET: usize = 1000;

/// Which interface a service has that finds pages.
#[derive(Debug, Clone)]
pub enum Provider {
    /// That of `SearXNG`, at this address.
    Searxng(Url),
    /// That of Brave, at this address, for who has this key.
    Brave(Url, SecretString),
}

/// A service that finds pages.
#[derive(Debug, Clone)]
pub struct Search {
    http: Client,
    provider: Provider,
}

/// A service that cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum BadSearch {
    /// The base URL cannot have a path.
    #[error("the URL {0} cannot be extended by a path")]
    BaseUrl(Url),
    /// The key has a character that a header cannot carry.
    #[error("the key cannot be sent as a header")]
    Key,
    /// TLS or the resolver did not start.
    #[error("the HTTP client did not start: {0}")]
    Http(#[from] reqwest::Error),
}

/// A page that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::tools::builtin) struct Found {
    title: String,
    url: String,
    snippet: String,
}

impl Search {
    /// A service of this kind.
    pub fn new(provider: Provider) -> Result<Self, BadSearch> {
        let headers = match &provider {
            Provider::Searxng(_) => reqwest::header::HeaderMap::new(),
            Provider::Brave(_, key) => brave::headers(key).map_err(|_| BadSearch::Key)?,
        };
        let http = Client::builder()
            .user_agent(concat!("twostep/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .redirect(Policy::none())
            .build()?;
        let provider = match provider {
            Provider::Searxng(url) => Provider::Searxng(extended(&url, &searxng::PATH)?),
            Provider::Brave(url, key) => Provider::Brave(extended(&url, &brave::PATH)?, key),
        };
        Ok(Self { http, provider })
    }

    /// The best pages, the best first.
    pub(in crate::tools::builtin) async fn find(
        &self,
        query: &str,
        domains: &Domains,
        most: usize,
    ) -> Result<Vec<Found>, Failure> {
        let query = domains.narrowed(&collapse_whitespace(query));
        if query.is_empty() || query.len() > MAX_QUERY {
            return Err(Failure::Query);
        }
        let found = match &self.provider {
            Provider::Searxng(url) => {
                searxng::results(&self.ask(self.http.get(searxng::asked(url, &query))).await?)
            }
            Provider::Brave(url, _) => {
                brave::results(&self.ask(self.http.get(brave::asked(url, &query))).await?)
            }
        };
        let found = found.map_err(|error| {
            tracing::warn!(%error, "the search gave an answer that cannot be read");
            Failure::Unreadable
        })?;
        let fits = |found: &Found| found.url.len() <= MAX_URL && domains.allow(&found.url);
        Ok(found.into_iter().filter(fits).take(most).collect())
    }

    async fn ask(&self, request: RequestBuilder) -> Result<Vec<u8>, Failure> {
        let response = request.send().await.map_err(|error| {
            tracing::warn!(error = %error.without_url(), "the search cannot be reached");
            Failure::Unreachable
        })?;
        let status = response.status();
        if !status.is_success() {
            tracing::warn!(status = status.as_u16(), "the search was refused");
            return Err(Failure::Status(status.as_u16()));
        }
        read_body(response, MAX_ANSWER).await.map_err(|error| {
            tracing::warn!(%error, "the search gave no whole answer");
            Failure::Unreachable
        })
    }
}

/// Why nothing was looked for, in the words of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::tools::builtin) enum Failure {
    #[error("the query has to have 1 to {MAX_QUERY} bytes, with its domains")]
    Query,
    #[error("fetch failed")]
    Unreachable,
    #[error("the search service answered with status {0}")]
    Status(u16),
    #[error("the search service gave an answer that cannot be read")]
    Unreadable,
}

impl Failure {
    /// As the failure of a tool that says this before it.
    pub(in crate::tools::builtin) fn of(self, before: &str) -> ToolError {
        let text = format!("{before}{self}");
        match self {
            Self::Query => ToolError::Invalid(text),
            Self::Unreachable => ToolError::Network(text),
            Self::Status(_) | Self::Unreadable => ToolError::Failed(text),
        }
    }
}

impl Found {
    /// What a service tells of a page, in one line each and not without end.
    fn new(title: &str, url: String, snippet: &str) -> Self {
        let (title, snippet) = (
            cut(collapse_whitespace(title), MAX_TITLE),
            cut(collapse_whitespace(snippet), MAX_SNIPPET),
        );
        Self { title, url, snippet }
    }
}

fn cut(mut text: String, most: usize) -> String {
    text.truncate(text.floor_char_boundary(most));
    text
}

fn extended(url: &Url, path: &[&str]) -> Result<Url, BadSearch> {
    let mut extended = url.clone();
    let mut segments =
        extended.path_segments_mut().map_err(|()| BadSearch::BaseUrl(url.clone()))?;
    segments.pop_if_empty().extend(path);
    drop(segments);
    Ok(extended)
}
