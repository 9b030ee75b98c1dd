//! Clients of web search services: `SearXNG` and Brave.

mod brave;
mod domains;
mod searxng;

use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Url};
use secrecy::SecretString;
use serde::Serialize;

use crate::domain::source::Source;
use crate::outbound::{BadBody, read_body};
use crate::tools::error::ToolError;
pub(in crate::tools::builtin) use domains::Domains;
use html_to_markdown::collapse_whitespace;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum size of a response, in bytes.
const MAX_ANSWER: usize = 2 * 1024 * 1024;
/// The maximum length of a query, in bytes. Brave accepts no longer queries.
const MAX_QUERY: usize = 400;
/// The maximum lengths of the title and the snippet of a result, in bytes.
const MAX_TITLE: usize = 300;
const MAX_URL: usize = 2000;
const MAX_SNIPPET: usize = 1000;

/// The API of a web search service.
#[derive(Debug, Clone)]
pub enum Provider {
    /// The API of `SearXNG` at a base URL.
    Searxng(Url),
    /// The Brave Search API at a base URL, with an API key.
    Brave(Url, SecretString),
}

/// A web search service.
#[derive(Debug, Clone)]
pub struct Search {
    http: Client,
    provider: Provider,
}

/// The reason why a search service cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum BadSearch {
    /// Paths cannot be appended to the base URL.
    #[error("the URL {0} cannot be extended by a path")]
    BaseUrl(Url),
    /// The API key contains a character that is not valid in a header.
    #[error("the key cannot be sent as a header")]
    Key,
    /// The HTTP client could not be created.
    #[error("the HTTP client did not start: {0}")]
    Http(#[from] reqwest::Error),
}

/// A search result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::tools::builtin) struct SearchResult {
    title: String,
    url: String,
    snippet: String,
}

impl Search {
    /// Creates a client of a search service.
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
            Provider::Searxng(url) => Provider::Searxng(with_path(&url, &searxng::PATH)?),
            Provider::Brave(url, key) => Provider::Brave(with_path(&url, &brave::PATH)?, key),
        };
        Ok(Self { http, provider })
    }

    /// Returns the best results, the best first.
    pub(in crate::tools::builtin) async fn find(
        &self,
        query: &str,
        domains: &Domains,
        most: usize,
    ) -> Result<Vec<SearchResult>, Failure> {
        let query = domains.narrowed(&collapse_whitespace(query));
        if query.is_empty() || query.len() > MAX_QUERY {
            return Err(Failure::Query);
        }
        let found = match &self.provider {
            Provider::Searxng(url) => searxng::results(
                &self.fetch(self.http.get(searxng::request_url(url, &query))).await?,
            ),
            Provider::Brave(url, _) => {
                brave::results(&self.fetch(self.http.get(brave::request_url(url, &query))).await?)
            }
        };
        let found = found.map_err(|error| {
            tracing::warn!(%error, "response of the search service could not be parsed");
            Failure::Unreadable
        })?;
        let fits = |found: &SearchResult| found.url.len() <= MAX_URL && domains.allow(&found.url);
        Ok(found.into_iter().filter(fits).take(most).collect())
    }

    async fn fetch(&self, request: RequestBuilder) -> Result<Vec<u8>, Failure> {
        let response = request.send().await.map_err(|error| {
            let error = error.without_url();
            tracing::warn!(%error, "search service unreachable");
            Failure::of_request(&error)
        })?;
        let status = response.status();
        if !status.is_success() {
            tracing::warn!(status = status.as_u16(), "search service returned an error status");
            return Err(Failure::Status(status.as_u16()));
        }
        read_body(response, MAX_ANSWER).await.map_err(|error| {
            tracing::warn!(%error, "response of the search service was incomplete");
            match error {
                BadBody::Broken(error) => Failure::of_request(&error),
                BadBody::Large(_) | BadBody::Compressed => Failure::Unreachable,
            }
        })
    }
}

/// The reason why a search failed, in terms for the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::tools::builtin) enum Failure {
    #[error("the query must have 1 to {MAX_QUERY} bytes, including its domains")]
    Query,
    #[error("fetch failed")]
    Unreachable,
    #[error("the search service did not answer in time")]
    Slow,
    #[error("the search service answered with status {0}")]
    Status(u16),
    #[error("the response of the search service cannot be parsed")]
    Unreadable,
}

impl Failure {
    fn of_request(error: &reqwest::Error) -> Self {
        if error.is_timeout() { Self::Slow } else { Self::Unreachable }
    }

    /// Converts the failure to a tool error whose text begins with `before`.
    pub(in crate::tools::builtin) fn of(self, before: &str) -> ToolError {
        let text = format!("{before}{self}");
        match self {
            Self::Query => ToolError::Invalid(text),
            Self::Unreachable => ToolError::Network(text),
            Self::Slow => ToolError::Timeout(text),
            Self::Status(_) | Self::Unreadable => ToolError::Failed(text),
        }
    }
}

impl SearchResult {
    /// The result as a source of the model's answer.
    pub(in crate::tools::builtin) fn source(&self) -> Source {
        Source::web(&self.title, &self.url)
    }

    /// Creates a result with a title and a snippet of one line each, truncated to the limits.
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

fn with_path(url: &Url, path: &[&str]) -> Result<Url, BadSearch> {
    let mut extended = url.clone();
    let mut segments =
        extended.path_segments_mut().map_err(|()| BadSearch::BaseUrl(url.clone()))?;
    segments.pop_if_empty().extend(path);
    drop(segments);
    Ok(extended)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_search_service_that_does_not_answer_in_time_is_a_timeout() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", server.local_addr().unwrap()).parse().unwrap();
        let http = Client::builder().timeout(Duration::from_millis(50)).build().unwrap();
        let search = Search { http, provider: Provider::Searxng(url) };
        let failure = search.find("ferris", &Domains::default(), 5).await.unwrap_err();
        let expected = "Error: the search service did not answer in time".to_owned();
        assert_eq!(failure.of("Error: "), ToolError::Timeout(expected));
    }
}
