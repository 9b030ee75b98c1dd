//! The interface of `SearXNG`: `/search?format=json`, which its operator has to switch on.

use reqwest::Url;
use serde::Deserialize;

use super::Found;

pub(super) const PATH: [&str; 1] = ["search"];

#[derive(Deserialize)]
struct Answer {
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

pub(super) fn asked(url: &Url, query: &str) -> Url {
    let mut url = url.clone();
    url.query_pairs_mut().extend_pairs([("q", query), ("format", "json")]);
    url
}

pub(super) fn results(answer: &[u8]) -> serde_json::Result<Vec<Found>> {
    let Answer { results } = serde_json::from_slice(answer)?;
    let found = |page: Page| {
        let (title, snippet) = (page.title.unwrap_or_default(), page.content.unwrap_or_default());
        Found::new(&title, page.url, &snippet)
    };
    Ok(results.into_iter().map(found).collect())
}
