//! Client of the `SearXNG` API: `/search?format=json`, which the operator of the server has to
//! enable.

use reqwest::Url;
use serde::Deserialize;

use super::SearchResult;

pub(super) const PATH: [&str; 1] = ["search"];

#[derive(Deserialize)]
struct SearxngResponse {
    results: Vec<Page>,
}

#[derive(Deserialize)]
struct Page {
    url: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    content: Option<String>,
}

pub(super) fn request_url(url: &Url, query: &str) -> Url {
    let mut url = url.clone();
    url.query_pairs_mut().extend_pairs([("q", query), ("format", "json")]);
    url
}

pub(super) fn results(answer: &[u8]) -> serde_json::Result<Vec<SearchResult>> {
    let SearxngResponse { results } = serde_json::from_slice(answer)?;
    let found = |page: Page| {
        let (title, snippet) = (page.title.unwrap_or_default(), page.content.unwrap_or_default());
        SearchResult::new(&title, page.url, &snippet)
    };
    Ok(results.into_iter().map(found).collect())
}
